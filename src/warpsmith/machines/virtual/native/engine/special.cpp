// Special registers: who and where a thread is.
#include <unordered_map>

#include "grid.h"
#include "lower.h"

namespace vgpu {

namespace {

template <class F>
void all(Warp& w, const Inst& i, F f) {
  lanes<uint32_t>(w, i.d, f);
}

template <int Axis>
void tid(Warp& w, const Inst& i) {
  const uint32_t* t = w.tid[Axis];
  all(w, i, [t](int l) { return t[l]; });
}

uint32_t axis(const Dim3& d, int a) { return a == 0 ? d.x : a == 1 ? d.y : d.z; }

template <int Axis>
void ntid(Warp& w, const Inst& i) {
  uint32_t v = axis(w.grid->launch->block, Axis);
  all(w, i, [v](int) { return v; });
}
template <int Axis>
void ctaid(Warp& w, const Inst& i) {
  uint32_t v = axis(w.block->id, Axis);
  all(w, i, [v](int) { return v; });
}
template <int Axis>
void nctaid(Warp& w, const Inst& i) {
  uint32_t v = axis(w.grid->launch->grid, Axis);
  all(w, i, [v](int) { return v; });
}
template <int Axis>
void cluster_shape(Warp& w, const Inst& i) {
  uint32_t v = axis(w.grid->launch->cluster, Axis);
  all(w, i, [v](int) { return v; });
}
template <int Axis>
void cluster_id(Warp& w, const Inst& i) {
  uint32_t v = axis(w.block->id, Axis) / axis(w.grid->launch->cluster, Axis);
  all(w, i, [v](int) { return v; });
}
template <int Axis>
void cluster_count(Warp& w, const Inst& i) {
  uint32_t v = axis(w.grid->launch->grid, Axis) / axis(w.grid->launch->cluster, Axis);
  all(w, i, [v](int) { return v; });
}
template <int Axis>
void cluster_ctaid(Warp& w, const Inst& i) {
  uint32_t v = axis(w.block->id, Axis) % axis(w.grid->launch->cluster, Axis);
  all(w, i, [v](int) { return v; });
}
void cluster_rank(Warp& w, const Inst& i) {
  uint32_t v = rank_in_cluster(w);
  all(w, i, [v](int) { return v; });
}
void cluster_ranks(Warp& w, const Inst& i) {
  const Dim3& c = w.grid->launch->cluster;
  uint32_t v = c.x * c.y * c.z;
  all(w, i, [v](int) { return v; });
}
void explicit_cluster(Warp& w, const Inst& i) { pred_out(w, i.d, w.grid->clustered ? ~0u : 0); }

template <uint32_t Value>
void fixed(Warp& w, const Inst& i) {
  all(w, i, [](int) { return Value; });
}
void laneid(Warp& w, const Inst& i) {
  all(w, i, [](int l) { return uint32_t(l); });
}
void warpid(Warp& w, const Inst& i) {
  uint32_t v = uint32_t(w.index);
  all(w, i, [v](int) { return v; });
}
void nwarpid(Warp& w, const Inst& i) {
  uint32_t v = uint32_t(w.grid->gpu->max_threads_per_sm / 32);
  all(w, i, [v](int) { return v; });
}
void smid(Warp& w, const Inst& i) {
  uint32_t v = w.block->linear % uint32_t(w.grid->gpu->sm_count);
  all(w, i, [v](int) { return v; });
}
void nsmid(Warp& w, const Inst& i) {
  uint32_t v = uint32_t(w.grid->gpu->sm_count);
  all(w, i, [v](int) { return v; });
}

template <int Kind>  // eq, le, lt, ge, gt
void lanemask(Warp& w, const Inst& i) {
  all(w, i, [](int l) {
    uint32_t bit = 1u << l, below = bit - 1;
    return Kind == 0 ? bit : Kind == 1 ? below | bit : Kind == 2 ? below : Kind == 3 ? ~below : ~(below | bit);
  });
}

uint64_t now(Warp& w) { return w.grid->clock + w.executed; }
void clock32(Warp& w, const Inst& i) {
  uint32_t v = uint32_t(now(w));
  all(w, i, [v](int) { return v; });
}
void clock_hi(Warp& w, const Inst& i) {
  uint32_t v = uint32_t(now(w) >> 32);
  all(w, i, [v](int) { return v; });
}
void clock64(Warp& w, const Inst& i) {
  uint64_t v = now(w);
  lanes<uint64_t>(w, i.d, [v](int) { return v; });
}
void globaltimer(Warp& w, const Inst& i) {
  uint64_t v = 1000000000 + now(w);
  lanes<uint64_t>(w, i.d, [v](int) { return v; });
}
void dynamic_shared(Warp& w, const Inst& i) {
  uint32_t v = uint32_t(w.grid->launch->dynamic_shared);
  all(w, i, [v](int) { return v; });
}
void total_shared(Warp& w, const Inst& i) {
  uint32_t v = uint32_t(w.grid->shared_bytes);
  all(w, i, [v](int) { return v; });
}
void gridid(Warp& w, const Inst& i) {
  uint64_t v = w.grid->launch->operation;
  lanes<uint64_t>(w, i.d, [v](int) { return v; });
}
void workspace_low(Warp& w, const Inst& i) {
  uint32_t v = uint32_t(w.grid->workspace);
  all(w, i, [v](int) { return v; });
}
void workspace_high(Warp& w, const Inst& i) {
  uint32_t v = uint32_t(w.grid->workspace >> 32);
  all(w, i, [v](int) { return v; });
}

struct Special {
  Handler fn;
  int width;
};

const std::unordered_map<std::string, Special>& table() {
  static const std::unordered_map<std::string, Special> t = {{"%tid.x", {tid<0>, 4}},
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
  return t;
}

}  // namespace

Handler special_register(const std::string& name, int* width) {
  auto found = table().find(name);
  if (found == table().end()) return nullptr;
  *width = found->second.width;
  return found->second.fn;
}

}  // namespace vgpu
