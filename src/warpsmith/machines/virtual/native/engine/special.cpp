// Special registers (PTX ISA, "Special Registers"): position of a thread, sizes, clocks.
#include <unordered_map>

#include "grid.h"
#include "lower.h"

namespace vgpu {

namespace {

template <class F>
void all(Warp& warp, const Inst& inst, F visit) {
  lanes<uint32_t>(warp, inst.d, visit);
}

template <int Axis>
void tid(Warp& warp, const Inst& inst) {
  const uint32_t* ids = warp.tid[Axis];
  all(warp, inst, [ids](int lane) { return ids[lane]; });
}

uint32_t axis(const Dim3& dims, int a) { return a == 0 ? dims.x : a == 1 ? dims.y : dims.z; }

template <int Axis>
void ntid(Warp& warp, const Inst& inst) {
  uint32_t value = axis(warp.grid->launch->block, Axis);
  all(warp, inst, [value](int) { return value; });
}
template <int Axis>
void ctaid(Warp& warp, const Inst& inst) {
  uint32_t value = axis(warp.block->id, Axis);
  all(warp, inst, [value](int) { return value; });
}
template <int Axis>
void nctaid(Warp& warp, const Inst& inst) {
  uint32_t value = axis(warp.grid->launch->grid, Axis);
  all(warp, inst, [value](int) { return value; });
}
template <int Axis>
void cluster_shape(Warp& warp, const Inst& inst) {
  uint32_t value = axis(warp.grid->launch->cluster, Axis);
  all(warp, inst, [value](int) { return value; });
}
template <int Axis>
void cluster_id(Warp& warp, const Inst& inst) {
  uint32_t value = axis(warp.block->id, Axis) / axis(warp.grid->launch->cluster, Axis);
  all(warp, inst, [value](int) { return value; });
}
template <int Axis>
void cluster_count(Warp& warp, const Inst& inst) {
  uint32_t value = axis(warp.grid->launch->grid, Axis) / axis(warp.grid->launch->cluster, Axis);
  all(warp, inst, [value](int) { return value; });
}
template <int Axis>
void cluster_ctaid(Warp& warp, const Inst& inst) {
  uint32_t value = axis(warp.block->id, Axis) % axis(warp.grid->launch->cluster, Axis);
  all(warp, inst, [value](int) { return value; });
}
void cluster_rank(Warp& warp, const Inst& inst) {
  uint32_t value = rank_in_cluster(warp);
  all(warp, inst, [value](int) { return value; });
}
void cluster_ranks(Warp& warp, const Inst& inst) {
  const Dim3& cluster = warp.grid->launch->cluster;
  uint32_t value = cluster.x * cluster.y * cluster.z;
  all(warp, inst, [value](int) { return value; });
}
void explicit_cluster(Warp& warp, const Inst& inst) { pred_out(warp, inst.d, warp.grid->clustered ? ~0u : 0); }

template <uint32_t Value>
void fixed(Warp& warp, const Inst& inst) {
  all(warp, inst, [](int) { return Value; });
}
void laneid(Warp& warp, const Inst& inst) {
  all(warp, inst, [](int lane) { return uint32_t(lane); });
}
void warpid(Warp& warp, const Inst& inst) {
  uint32_t value = uint32_t(warp.index);
  all(warp, inst, [value](int) { return value; });
}
void nwarpid(Warp& warp, const Inst& inst) {
  uint32_t value = uint32_t(warp.grid->gpu->max_threads_per_sm / 32);
  all(warp, inst, [value](int) { return value; });
}
void smid(Warp& warp, const Inst& inst) {
  uint32_t value = warp.block->linear % uint32_t(warp.grid->gpu->sm_count);
  all(warp, inst, [value](int) { return value; });
}
void nsmid(Warp& warp, const Inst& inst) {
  uint32_t value = uint32_t(warp.grid->gpu->sm_count);
  all(warp, inst, [value](int) { return value; });
}

template <int Kind>  // eq, le, lt, ge, gt
void lanemask(Warp& warp, const Inst& inst) {
  all(warp, inst, [](int lane) {
    uint32_t bit = 1u << lane, below = bit - 1;
    return Kind == 0 ? bit : Kind == 1 ? below | bit : Kind == 2 ? below : Kind == 3 ? ~below : ~(below | bit);
  });
}

uint64_t now(Warp& warp) { return warp.grid->clock + warp.executed; }
void clock32(Warp& warp, const Inst& inst) {
  uint32_t value = uint32_t(now(warp));
  all(warp, inst, [value](int) { return value; });
}
void clock_hi(Warp& warp, const Inst& inst) {
  uint32_t value = uint32_t(now(warp) >> 32);
  all(warp, inst, [value](int) { return value; });
}
void clock64(Warp& warp, const Inst& inst) {
  uint64_t value = now(warp);
  lanes<uint64_t>(warp, inst.d, [value](int) { return value; });
}
void globaltimer(Warp& warp, const Inst& inst) {
  uint64_t value = 1000000000 + now(warp);
  lanes<uint64_t>(warp, inst.d, [value](int) { return value; });
}
void dynamic_shared(Warp& warp, const Inst& inst) {
  uint32_t value = uint32_t(warp.grid->launch->dynamic_shared);
  all(warp, inst, [value](int) { return value; });
}
void total_shared(Warp& warp, const Inst& inst) {
  uint32_t value = uint32_t(warp.grid->shared_bytes);
  all(warp, inst, [value](int) { return value; });
}
void gridid(Warp& warp, const Inst& inst) {
  uint64_t value = warp.grid->launch->operation;
  lanes<uint64_t>(warp, inst.d, [value](int) { return value; });
}
void workspace_low(Warp& warp, const Inst& inst) {
  uint32_t value = uint32_t(warp.grid->workspace);
  all(warp, inst, [value](int) { return value; });
}
void workspace_high(Warp& warp, const Inst& inst) {
  uint32_t value = uint32_t(warp.grid->workspace >> 32);
  all(warp, inst, [value](int) { return value; });
}

struct Special {
  Handler fn;
  int width;
};

const std::unordered_map<std::string, Special>& table() {
  static const std::unordered_map<std::string, Special> registers = {{"%tid.x", {tid<0>, 4}},
                                                                     {"%tid.y", {tid<1>, 4}},
                                                                     {"%tid.z", {tid<2>, 4}},
                                                                     {"%tid.w", {fixed<0>, 4}},
                                                                     {"%ntid.x", {ntid<0>, 4}},
                                                                     {"%ntid.y", {ntid<1>, 4}},
                                                                     {"%ntid.z", {ntid<2>, 4}},
                                                                     {"%ctaid.x", {ctaid<0>, 4}},
                                                                     {"%ctaid.y", {ctaid<1>, 4}},
                                                                     {"%ctaid.z", {ctaid<2>, 4}},
                                                                     {"%nctaid.x", {nctaid<0>, 4}},
                                                                     {"%nctaid.y", {nctaid<1>, 4}},
                                                                     {"%nctaid.z", {nctaid<2>, 4}},
                                                                     {"%laneid", {laneid, 4}},
                                                                     {"%warpid", {warpid, 4}},
                                                                     {"%nwarpid", {nwarpid, 4}},
                                                                     {"%smid", {smid, 4}},
                                                                     {"%nsmid", {nsmid, 4}},
                                                                     {"%gridid", {gridid, 8}},
                                                                     {"%lanemask_eq", {lanemask<0>, 4}},
                                                                     {"%lanemask_le", {lanemask<1>, 4}},
                                                                     {"%lanemask_lt", {lanemask<2>, 4}},
                                                                     {"%lanemask_ge", {lanemask<3>, 4}},
                                                                     {"%lanemask_gt", {lanemask<4>, 4}},
                                                                     {"%clock", {clock32, 4}},
                                                                     {"%clock_hi", {clock_hi, 4}},
                                                                     {"%clock64", {clock64, 8}},
                                                                     {"%globaltimer", {globaltimer, 8}},
                                                                     {"%globaltimer_lo", {clock32, 4}},
                                                                     {"%globaltimer_hi", {clock_hi, 4}},
                                                                     {"%dynamic_smem_size", {dynamic_shared, 4}},
                                                                     {"%total_smem_size", {total_shared, 4}},
                                                                     {"%envreg1", {workspace_high, 4}},
                                                                     {"%envreg2", {workspace_low, 4}},
                                                                     {"%cluster_nctaid.x", {cluster_shape<0>, 4}},
                                                                     {"%cluster_nctaid.y", {cluster_shape<1>, 4}},
                                                                     {"%cluster_nctaid.z", {cluster_shape<2>, 4}},
                                                                     {"%clusterid.x", {cluster_id<0>, 4}},
                                                                     {"%clusterid.y", {cluster_id<1>, 4}},
                                                                     {"%clusterid.z", {cluster_id<2>, 4}},
                                                                     {"%nclusterid.x", {cluster_count<0>, 4}},
                                                                     {"%nclusterid.y", {cluster_count<1>, 4}},
                                                                     {"%nclusterid.z", {cluster_count<2>, 4}},
                                                                     {"%cluster_ctaid.x", {cluster_ctaid<0>, 4}},
                                                                     {"%cluster_ctaid.y", {cluster_ctaid<1>, 4}},
                                                                     {"%cluster_ctaid.z", {cluster_ctaid<2>, 4}},
                                                                     {"%cluster_ctarank", {cluster_rank, 4}},
                                                                     {"%cluster_nctarank", {cluster_ranks, 4}},
                                                                     {"%is_explicit_cluster", {explicit_cluster, 0}}};
  return registers;
}

}  // namespace

Handler special_register(const std::string& name, int* width) {
  auto found = table().find(name);
  if (found == table().end()) return nullptr;
  *width = found->second.width;
  return found->second.fn;
}

}  // namespace vgpu
