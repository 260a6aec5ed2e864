#include "mounts.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "idmap.h"
#include "mount_calls.h"

namespace warpsmith {
namespace {

constexpr char kBase[] = "/tmp";  // covered by the tmpfs only inside the new mount namespace

// Kernels before 5.12: flags of one mount only, keeping those that a user namespace may not clear.
bool restrict_one(const std::string& path, uint64_t attributes) {
  struct statvfs now;
  if (statvfs(path.c_str(), &now) != 0) return false;
  unsigned long flags = MS_BIND | MS_REMOUNT;
  const unsigned long kept[][2] = {{ST_RDONLY, MS_RDONLY},        {ST_NOSUID, MS_NOSUID},   {ST_NODEV, MS_NODEV},
                                   {ST_NOEXEC, MS_NOEXEC},        {ST_NOATIME, MS_NOATIME}, {ST_RELATIME, MS_RELATIME},
                                   {ST_NODIRATIME, MS_NODIRATIME}};
  for (const auto& [from, to] : kept) flags |= (now.f_flag & from) ? to : 0;
  if (attributes & kReadOnly) flags |= MS_RDONLY;
  if (attributes & kNoSuid) flags |= MS_NOSUID;
  if (attributes & kNoDevices) flags |= MS_NODEV;
  return mount(nullptr, path.c_str(), nullptr, flags, nullptr) == 0;
}

bool restrict_mount(const std::string& path, uint64_t attributes, bool whole_tree) {
  if (set_attributes(AT_FDCWD, path.c_str(), whole_tree ? kWholeTree : 0, {attributes, 0, 0, 0})) return true;
  return errno == ENOSYS && restrict_one(path, attributes);
}

bool make_folders(const std::string& path) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
    if (mkdir(path.substr(0, at).c_str(), 0755) != 0 && errno != EEXIST) return false;
  return true;
}

bool make_place(const std::string& path, bool folder) {
  struct stat found;
  if (lstat(path.c_str(), &found) == 0) return true;
  if (!make_folders(path)) return false;
  if (folder) return mkdir(path.c_str(), 0755) == 0;
  const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

bool place_for(const std::string& path) {
  struct stat found;
  return stat(("/old" + path).c_str(), &found) == 0 && make_place("/new" + path, S_ISDIR(found.st_mode));
}

bool bind(const std::string& path, uint64_t attributes) {
  const std::string from = "/old" + path, to = "/new" + path;
  return place_for(path) && mount(from.c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0 &&
         restrict_mount(to, attributes, true);
}

// The child is another user and must read a file with mode 600 or a temporary folder with mode 700 too.
bool show_private(const std::string& path, const Owner& owner) {
  const std::string from = "/old" + path, to = "/new" + path;
  if (!place_for(path)) return false;
  if (bind_as(from, to, owner)) return restrict_mount(to, kReadOnly | kNoSuid | kNoDevices, true);
  return copy_as(from, to, owner);
}

// Twice the memory limit: the watch counts what lies here and names an overrun before the file system refuses.
bool scratch(const std::string& path, uint64_t memory_bytes) {
  const std::string options = "mode=1777,size=" + std::to_string(memory_bytes ? 2 * memory_bytes : 1ULL << 30);
  return make_place("/new" + path, true) &&
         mount("tmpfs", ("/new" + path).c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) == 0;
}

bool write_text(const std::string& path, const std::string& text) {
  if (!make_folders(path)) return false;
  const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  const bool whole = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  return close(fd) == 0 && whole;
}

std::vector<std::string> nvidia_nodes() {
  std::vector<std::string> found;
  DIR* folder = opendir("/old/dev");
  if (!folder) return found;
  while (const dirent* entry = readdir(folder))
    if (strncmp(entry->d_name, "nvidia", 6) == 0) found.push_back(std::string("/dev/") + entry->d_name);
  closedir(folder);
  return found;
}

bool make_devices(const Spec& spec) {
  for (const char* node : {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"})
    if (!bind(node, kNoSuid)) return false;
  if (spec.devices)
    for (const std::string& node : nvidia_nodes())
      if (!bind(node, kNoSuid)) return false;
  const char* links[][2] = {{"/proc/self/fd", "/new/dev/fd"},
                            {"/proc/self/fd/0", "/new/dev/stdin"},
                            {"/proc/self/fd/1", "/new/dev/stdout"},
                            {"/proc/self/fd/2", "/new/dev/stderr"}};
  for (const auto& [target, path] : links)
    if (symlink(target, path) != 0) return false;
  return scratch("/dev/shm", spec.limits.memory_bytes);
}

// Its own /proc where the pid namespace is its own (cuInit insists on it); else the machine's.
bool make_proc(bool own_pids, Report* report) {
  if (!make_place("/new/proc", true)) return false;
  if (own_pids) {
    if (mount("proc", "/new/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0)
      return report->achieved("pid_ns"), true;
    report->missing("pid_ns", std::string("its own /proc was refused: mount: ") + strerror(errno));
  }
  return mount("/old/proc", "/new/proc", nullptr, MS_BIND | MS_REC, nullptr) == 0;
}

bool make_links(const Spec& spec) {
  for (const Link& link : spec.links) {
    const std::string path = "/new" + link.path;
    if (!make_folders(path) || (symlink(link.target.c_str(), path.c_str()) != 0 && errno != EEXIST)) return false;
  }
  return true;
}

bool make_accounts(const Owner& owner) {
  const std::string uid = std::to_string(owner.uid), gid = std::to_string(owner.gid);
  const std::string child = "confined:x:" + uid + ":" + gid + "::/tmp:/bin/false\n";
  return write_text("/new/etc/passwd", "root:x:0:0::/:/bin/false\n" + child) &&
         write_text("/new/etc/group", "root:x:0:\nconfined:x:" + gid + ":\n");
}

// The first pivot puts the machine's root at /old, so that binds read from there while /new is filled.
bool enter_scaffold(Report* report) {
  const std::string base = kBase;
  if (!report->part("mount_ns", mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "mount")) return false;
  const bool ready = mount("tmpfs", kBase, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=256m") == 0 &&
                     mkdir((base + "/new").c_str(), 0755) == 0 && mkdir((base + "/old").c_str(), 0755) == 0 &&
                     mount((base + "/new").c_str(), (base + "/new").c_str(), nullptr, MS_BIND, nullptr) == 0 &&
                     syscall(SYS_pivot_root, kBase, (base + "/old").c_str()) == 0;
  if (!ready) report->missing("readonly_root", std::string("pivot_root: ") + strerror(errno));
  return ready && chdir("/") == 0;
}

bool leave_scaffold() {
  return chdir("/new") == 0 && syscall(SYS_pivot_root, ".", ".") == 0 && umount2(".", MNT_DETACH) == 0 &&
         chdir("/") == 0;
}

// Our own parts first: they must not be written through a bind, and a bind may lie inside /tmp.
bool fill(const Spec& spec, const Owner& owner, bool own_pids, Report* report, std::string* step) {
  *step = "/tmp";
  if (!scratch("/tmp", spec.limits.memory_bytes) || !make_accounts(owner)) return false;
  *step = "/dev";
  if (!make_devices(spec)) return false;
  *step = "/proc";
  if (!make_proc(own_pids, report)) return false;
  *step = "/sys";
  const char* system = spec.devices ? "/sys" : "/sys/devices/system";
  if (access((std::string("/old") + system).c_str(), F_OK) == 0 && !bind(system, kReadOnly | kNoSuid)) return false;
  *step = "links";
  if (!make_links(spec)) return false;
  for (const Bind& one : spec.binds) {
    *step = one.path;
    const bool closed = !one.write && owner.change && is_private("/old" + one.path);
    if (closed) *step += " (only its owner may read it; chmod o+rX would open it)";
    if (closed && !show_private(one.path, owner)) return false;
    if (!closed && !bind(one.path, one.write ? kNoSuid | kNoDevices : kReadOnly | kNoSuid | kNoDevices)) return false;
  }
  return true;
}

}  // namespace

bool make_root(const Spec& spec, const Owner& owner, bool own_pids, Report* report, std::string* error) {
  if (!enter_scaffold(report)) return true;
  umask(022);
  std::string step;
  bool whole = fill(spec, owner, own_pids, report, &step);
  if (whole) step = "the root", whole = restrict_mount("/new", kReadOnly | kNoSuid | kNoDevices, false);
  if (whole) whole = leave_scaffold();
  if (!whole) return *error = step + " cannot be put into the new root: " + strerror(errno), false;
  report->achieved("readonly_root");
  report->achieved("private_tmp");
  return true;
}

}  // namespace warpsmith
