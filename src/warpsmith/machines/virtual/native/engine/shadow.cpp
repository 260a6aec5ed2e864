#include "shadow.h"

namespace vgpu {

namespace {

View segment_view(Warp& w, Cells* cells) {
  Races& races = *w.grid->races;
  if (!w.segment) w.segment = races.segment(w.block->linear, uint32_t(w.index), w.clock);
  View v;
  v.cells = cells;
  v.own = w.segment << 6;
  v.safe = races.safe;
  return v;
}

}  // namespace

View shared_view(Warp& w, Block& owner, int64_t origin) {
  if (w.grid->clustered) {
    View v = segment_view(w, &owner.cells);
    v.origin = origin;
    v.first = Address(origin);
    v.space = "shared";
    return v;
  }
  // The pending mark takes the last clock; a warp that gets there starts the count again.
  if (w.clock - w.block->clock_base >= kPendingClock - 1) rebase_clocks(*w.block, w.clock);
  View v;
  v.cells = &w.block->cells;
  v.origin = origin;
  v.first = Address(origin);
  v.own = (w.clock - w.block->clock_base) << 11 | uint32_t(w.index) << 6;
  v.safe = w.shared_safe;
  v.shared = true;
  v.space = "shared";
  return v;
}

View global_view(Warp& w, Allocation* a, Address first) {
  View v = segment_view(w, &a->cells);
  v.origin = int64_t(first - a->start);
  v.first = first;
  return v;
}

namespace {

bool shared_before(Warp& w, uint32_t cell, int lane) {
  uint32_t stamp = cell >> 6, warp = stamp & 31, clock = stamp >> 5;
  if (clock == kPendingClock) return false;
  clock += w.block->clock_base;
  if (int(warp) == w.index && int(cell & 31) == lane) return true;
  if (w.seen[warp] >= clock) return true;
  return w.grid->races->released_to(w, w.block->linear, warp, clock);
}

bool global_before(Warp& w, uint32_t cell, int lane) {
  uint32_t stamp = cell >> 6;
  Races& races = *w.grid->races;
  if (stamp >> 5 == kPendingClock) return false;
  if (stamp < races.first) return races.unordered_span(stamp) == nullptr;
  if (stamp != w.judged_stamp) {
    const Segment& s = races.at(stamp);
    bool same_block = s.block == w.block->linear;
    w.judged_stamp = stamp;
    // Its own read excuses a thread, unless others read too and nothing has happened since that might order them.
    w.judged_mine = same_block && s.warp == w.index && !(s.many && s.clock == w.clock);
    w.judged_ordered = (same_block && w.seen[s.warp] >= s.clock) || races.released_to(w, s.block, s.warp, s.clock);
  }
  return w.judged_ordered || (w.judged_mine && int(cell & 31) == lane);
}

bool other_block(Warp& w, uint32_t cell) {
  uint32_t stamp = cell >> 6;
  const Races& races = *w.grid->races;
  return stamp >= races.first && races.at(stamp).block != w.block->linear;
}

struct Touch {
  size_t cell;
  int lane;
  int64_t delta;
};

void uninitialized(Warp& w, const Inst& inst, const View& v, const Touch& t, uint32_t bytes) {
  Address at = v.first + Address(t.delta);
  report(w, inst, t.lane, {"uninitialized", at, bytes, v.space, false}, [&] {
    return std::string("reads ") + std::to_string(bytes) + " bytes of " + v.space + " memory at " + hex(at) +
           " that nobody has written";
  });
}

void race(Warp& w, const Inst& inst, const View& v, const Touch& t, uint32_t bytes, uint32_t cell, const char* doing,
          const char* done) {
  Address at = v.first + Address(t.delta);
  report(w, inst, t.lane, {"race", at, bytes, v.space, false}, [&] {
    return std::string(doing) + " " + v.space + " memory at " + hex(at) + " that " + rival(w, v.shared, cell) + " " +
           done + " with nothing that orders the two";
  });
}

// Another thread of the block has read this too, with nothing between the two.
bool read_by_many(Warp& w, const View& v, uint32_t o, uint32_t me, int lane) {
  return (o & ~kCellFlag) != me && ((o & ~kCellFlag) == (me + kMany) || !ordered_before(w, v.shared, o, lane));
}

void read_cell(Warp& w, const Inst& inst, const View& v, const Touch& t, uint32_t bytes, bool strong, bool repeated) {
  uint32_t c = v.cells->wrote[t.cell];
  if (c - 1 >= v.safe - 1) {
    if (c == 0) uninitialized(w, inst, v, t, bytes);
    else if (!(strong && (c & kCellFlag)) && !ordered_before(w, v.shared, c, t.lane))
      race(w, inst, v, t, bytes, c, "reads", "wrote");
  }
  if (strong) return;
  uint32_t me = v.own | uint32_t(t.lane), o = v.cells->read[t.cell];
  uint32_t flag = repeated && v.shared ? kCellFlag : 0, many = repeated && !v.shared ? kMany : 0;
  if (o >= v.safe) {
    if ((o & ~kCellFlag) == me) flag |= o & kCellFlag;
    else if (v.shared) flag |= ordered_before(w, true, o, t.lane) ? 0 : kCellFlag;
    else if (other_block(w, o)) flag |= ordered_before(w, false, o, t.lane) ? 0 : kCellFlag;
    else {
      flag |= o & kCellFlag;
      if (read_by_many(w, v, o, me, t.lane)) many = kMany;
    }
  }
  v.cells->read[t.cell] = (me | flag) + many;
}

// The reader's cell makes this write a race.
bool read_conflict(Warp& w, const View& v, uint32_t r, uint32_t me, int lane) {
  if (r < v.safe) return false;
  bool mine = (r & ~kCellFlag) == me;
  if (v.shared) return mine ? (r & kCellFlag) != 0 : !ordered_before(w, true, r, lane);
  if ((r & kCellFlag) && w.knowledge == 0) return true;
  return !mine && !ordered_before(w, false, r, lane);
}

void write_cell(Warp& w, const Inst& inst, const View& v, const Touch& t, uint32_t bytes, Strength strength,
                Access* access) {
  bool strong = strength != Strength::Plain;
  uint32_t me = v.own | uint32_t(t.lane), c = v.cells->wrote[t.cell], r = v.cells->read[t.cell];
  if (c == 0 && strength == Strength::Atomic) uninitialized(w, inst, v, t, bytes);
  if (c >= v.safe && (c & ~kCellFlag) != me && !(strong && (c & kCellFlag)) &&
      !ordered_before(w, v.shared, c, t.lane)) {
    if (strong) race(w, inst, v, t, bytes, c, "updates", "wrote");
    else if (!access->suspects) {
      access->prior = c;
      access->prior_read = false;
    }
    access->suspects |= 1u << t.lane;
  } else if (read_conflict(w, v, r, me, t.lane)) {
    if (strong) race(w, inst, v, t, bytes, r, "updates", "read");
    else if (!access->suspects) {
      access->prior = r;
      access->prior_read = true;
    }
    access->suspects |= 1u << t.lane;
  }
  v.cells->wrote[t.cell] = me | (strong ? kCellFlag : 0);
}

size_t first_cell(const View& v) { return size_t(v.origin) >> v.cells->shift; }

// Whether n cells carry one stamp, lane after lane; then one judgement is enough for all of them.
bool lane_by_lane(const uint32_t* cells, uint32_t per) {
  uint32_t base = cells[0], differs = 0;
  for (uint32_t i = 0; i < 32; ++i)
    for (uint32_t j = 0; j < per; ++j) differs |= cells[i * per + j] ^ (base + i);
  return differs == 0 && (base & 31) == 0;
}

template <class F>
void fill_lanes(uint32_t* cells, uint32_t per, F value) {
  if (per == 1) {
#pragma GCC ivdep
    for (uint32_t i = 0; i < 32; ++i) cells[i] = value(i);
    return;
  }
  for (uint32_t i = 0; i < 32; ++i)
    for (uint32_t j = 0; j < per; ++j) cells[i * per + j] = value(i);
}

bool any_at_least(const uint32_t* cells, uint32_t n, uint32_t bound) {
  uint32_t any = 0;
  for (uint32_t i = 0; i < n; ++i) any |= cells[i] >= bound;
  return any != 0;
}

bool any_suspect_write(const uint32_t* cells, uint32_t n, uint32_t safe) {
  uint32_t any = 0;
  for (uint32_t i = 0; i < n; ++i) any |= cells[i] - 1 >= safe - 1;
  return any != 0;
}

bool contiguous_read(Warp& w, const View& v, uint32_t per) {
  size_t k = first_cell(v);
  uint32_t *wrote = v.cells->wrote + k, *read = v.cells->read + k, own = v.own;
  if (any_suspect_write(wrote, 32 * per, v.safe) &&
      !(wrote[0] && !(wrote[0] & kCellFlag) && lane_by_lane(wrote, per) && ordered_before(w, v.shared, wrote[0], 0)))
    return false;
  uint32_t flag = 0;
  if (any_at_least(read, 32 * per, v.safe)) {
    if (!lane_by_lane(read, per)) return false;
    uint32_t o = read[0];
    if ((o & ~kCellFlag) == own) return true;
    if (v.shared) flag = ordered_before(w, true, o, 0) ? 0 : kCellFlag;
    else if (other_block(w, o)) flag = ordered_before(w, false, o, 0) ? 0 : kCellFlag;
    else {
      flag = o & kCellFlag;
      if (read_by_many(w, v, o, own, 0)) flag += kMany;
    }
  }
  fill_lanes(read, per, [own, flag](uint32_t i) { return own + flag + i; });
  return true;
}

bool contiguous_write(Warp& w, const View& v, uint32_t per) {
  size_t k = first_cell(v);
  uint32_t *wrote = v.cells->wrote + k, *read = v.cells->read + k, own = v.own;
  if (any_at_least(wrote, 32 * per, v.safe) && !(lane_by_lane(wrote, per) && ordered_before(w, v.shared, wrote[0], 0)))
    return false;
  if (any_at_least(read, 32 * per, v.safe) && !(lane_by_lane(read, per) && !read_conflict(w, v, read[0], own, 0)))
    return false;
  fill_lanes(wrote, per, [own](uint32_t i) { return own + i; });
  return true;
}

template <class F>
void each_cell(const View& v, const Memo& m, uint32_t bytes, F f) {
  size_t per = bytes >> v.cells->shift;
  for (int u = 0; u < m.unique_count; ++u) {
    int lane = m.unique[u];
    size_t k = size_t(v.origin + m.delta[lane]) >> v.cells->shift;
    for (size_t j = 0; j < per; ++j) f(Touch{k + j, lane, m.delta[lane]}, (m.repeated >> u & 1) != 0);
  }
}

}  // namespace

bool ordered_before(Warp& w, bool shared, uint32_t cell, int lane) {
  return shared ? shared_before(w, cell, lane) : global_before(w, cell, lane);
}

std::string rival(Warp& w, bool shared, uint32_t cell) {
  uint32_t stamp = cell >> 6;
  const Grid& g = *w.grid;
  if (stamp >> 5 == kPendingClock)
    return "an unfinished cp.async of " + name_thread(g, w.block->linear, int(stamp & 31), int(cell & 31));
  if (shared) return name_thread(g, w.block->linear, int(stamp & 31), int(cell & 31));
  if (const OperationSpan* span = g.races->unordered_span(stamp))
    return span->what + " (operation " + std::to_string(span->operation) + ")";
  const Segment& s = g.races->at(stamp);
  if (s.many && s.block == w.block->linear && s.warp == w.index) return "another thread of the block";
  return name_thread(g, s.block, s.warp, int(cell & 31));
}

void shadow_read(Warp& w, const Inst& inst, const View& v, const Memo& m, uint32_t bytes, Strength strength) {
  if (bytes < (1u << v.cells->shift)) v.cells->refine(__builtin_ctz(bytes));
  bool strong = strength != Strength::Plain;
  if (m.shape == Shape::Contiguous && !strong && contiguous_read(w, v, bytes >> v.cells->shift)) return;
  each_cell(v, m, bytes, [&](const Touch& t, bool repeated) { read_cell(w, inst, v, t, bytes, strong, repeated); });
}

void shadow_write(Warp& w, const Inst& inst, const View& v, const Memo& m, uint32_t bytes, Strength strength,
                  Access* access) {
  if (bytes < (1u << v.cells->shift)) v.cells->refine(__builtin_ctz(bytes));
  if (m.shape == Shape::Contiguous && strength == Strength::Plain && contiguous_write(w, v, bytes >> v.cells->shift))
    return;
  each_cell(v, m, bytes, [&](const Touch& t, bool) { write_cell(w, inst, v, t, bytes, strength, access); });
}

}  // namespace vgpu
