// Updates of shadow cells by a request, and the decision whether two accesses are ordered.
#include "shadow.h"

namespace vgpu {

namespace {

View segment_view(Warp& warp, Cells* cells) {
  Races& races = *warp.grid->races;
  if (!warp.segment) warp.segment = races.segment(warp.block->linear, uint32_t(warp.index), warp.clock);
  View view;
  view.cells = cells;
  view.own = warp.segment << 6;
  view.safe = races.safe;
  return view;
}

}  // namespace

View shared_view(Warp& warp, Block& owner, int64_t origin) {
  if (warp.grid->clustered) {
    View view = segment_view(warp, &owner.cells);
    view.origin = origin;
    view.first = Address(origin);
    view.space = "shared";
    return view;
  }
  // kPendingClock is reserved, so the clocks are rebased before a warp reaches it.
  if (warp.clock - warp.block->clock_base >= kPendingClock - 1) rebase_clocks(*warp.block, warp.clock);
  View view;
  view.cells = &warp.block->cells;
  view.origin = origin;
  view.first = Address(origin);
  view.own = (warp.clock - warp.block->clock_base) << 11 | uint32_t(warp.index) << 6;
  view.safe = warp.shared_safe;
  view.shared = true;
  view.space = "shared";
  return view;
}

View global_view(Warp& warp, Allocation* allocation, Address first) {
  View view = segment_view(warp, &allocation->cells);
  view.origin = int64_t(first - allocation->start);
  view.first = first;
  return view;
}

namespace {

bool shared_before(Warp& reader, uint32_t cell, int lane) {
  uint32_t stamp = cell >> 6, warp = stamp & 31, clock = stamp >> 5;
  if (clock == kPendingClock) return false;
  clock += reader.block->clock_base;
  if (int(warp) == reader.index && int(cell & 31) == lane) return true;
  if (reader.seen[warp] >= clock) return true;
  return reader.grid->races->released_to(reader, reader.block->linear, warp, clock);
}

bool global_before(Warp& warp, uint32_t cell, int lane) {
  uint32_t stamp = cell >> 6;
  Races& races = *warp.grid->races;
  if (stamp >> 5 == kPendingClock) return false;
  if (stamp < races.first) return races.unordered_span(stamp) == nullptr;
  if (stamp != warp.cached_stamp) {
    const Segment& segment = races.at(stamp);
    bool same_block = segment.block == warp.block->linear;
    warp.cached_stamp = stamp;
    // A thread's own read is no conflict, unless another thread of the block read too and the clock has not advanced
    // since.
    warp.cached_own_read = same_block && segment.warp == warp.index && !(segment.many && segment.clock == warp.clock);
    warp.cached_ordered = (same_block && warp.seen[segment.warp] >= segment.clock) ||
                          races.released_to(warp, segment.block, segment.warp, segment.clock);
  }
  return warp.cached_ordered || (warp.cached_own_read && int(cell & 31) == lane);
}

bool other_block(Warp& warp, uint32_t cell) {
  uint32_t stamp = cell >> 6;
  const Races& races = *warp.grid->races;
  return stamp >= races.first && races.at(stamp).block != warp.block->linear;
}

struct Touch {
  size_t cell;
  int lane;
  int64_t delta;
};

void uninitialized(Warp& warp, const Inst& inst, const View& view, const Touch& touch, uint32_t bytes) {
  Address at = view.first + Address(touch.delta);
  report(warp, inst, touch.lane, {"uninitialized", at, bytes, view.space, false}, [&] {
    return std::string("reads ") + std::to_string(bytes) + " bytes of " + view.space + " memory at " + hex(at) +
           " that nobody has written";
  });
}

void race(Warp& warp, const Inst& inst, const View& view, const Touch& touch, uint32_t bytes, uint32_t cell,
          const char* doing, const char* done) {
  Address at = view.first + Address(touch.delta);
  report(warp, inst, touch.lane, {"race", at, bytes, view.space, false}, [&] {
    return std::string(doing) + " " + view.space + " memory at " + hex(at) + " that " +
           name_other_access(warp, view.shared, cell) + " " + done + " with nothing that orders the two";
  });
}

// Whether another thread of the block has read the cell without an order between the two reads.
bool read_by_many(Warp& warp, const View& view, uint32_t earlier, uint32_t me, int lane) {
  return (earlier & ~kCellFlag) != me &&
         ((earlier & ~kCellFlag) == (me + kMany) || !ordered_before(warp, view.shared, earlier, lane));
}

void read_cell(Warp& warp, const Inst& inst, const View& view, const Touch& touch, uint32_t bytes, bool strong,
               bool repeated) {
  uint32_t written = view.cells->wrote[touch.cell];
  if (written - 1 >= view.safe - 1) {
    if (written == 0) uninitialized(warp, inst, view, touch, bytes);
    else if (!(strong && (written & kCellFlag)) && !ordered_before(warp, view.shared, written, touch.lane))
      race(warp, inst, view, touch, bytes, written, "reads", "wrote");
  }
  if (strong) return;
  uint32_t me = view.own | uint32_t(touch.lane), earlier = view.cells->read[touch.cell];
  uint32_t flag = repeated && view.shared ? kCellFlag : 0, many = repeated && !view.shared ? kMany : 0;
  if (earlier >= view.safe) {
    if ((earlier & ~kCellFlag) == me) flag |= earlier & kCellFlag;
    else if (view.shared) flag |= ordered_before(warp, true, earlier, touch.lane) ? 0 : kCellFlag;
    else if (other_block(warp, earlier)) flag |= ordered_before(warp, false, earlier, touch.lane) ? 0 : kCellFlag;
    else {
      flag |= earlier & kCellFlag;
      if (read_by_many(warp, view, earlier, me, touch.lane)) many = kMany;
    }
  }
  view.cells->read[touch.cell] = (me | flag) + many;
}

// Whether the earlier read makes this write a race.
bool read_conflict(Warp& warp, const View& view, uint32_t reader, uint32_t me, int lane) {
  if (reader < view.safe) return false;
  bool mine = (reader & ~kCellFlag) == me;
  if (view.shared) return mine ? (reader & kCellFlag) != 0 : !ordered_before(warp, true, reader, lane);
  if ((reader & kCellFlag) && warp.knowledge == 0) return true;
  return !mine && !ordered_before(warp, false, reader, lane);
}

void write_cell(Warp& warp, const Inst& inst, const View& view, const Touch& touch, uint32_t bytes, Strength strength,
                Access* access) {
  bool strong = strength != Strength::Plain;
  uint32_t me = view.own | uint32_t(touch.lane), written = view.cells->wrote[touch.cell],
           reader = view.cells->read[touch.cell];
  if (written == 0 && strength == Strength::Atomic) uninitialized(warp, inst, view, touch, bytes);
  if (written >= view.safe && (written & ~kCellFlag) != me && !(strong && (written & kCellFlag)) &&
      !ordered_before(warp, view.shared, written, touch.lane)) {
    if (strong) race(warp, inst, view, touch, bytes, written, "updates", "wrote");
    else if (!access->suspects) {
      access->prior = written;
      access->prior_read = false;
    }
    access->suspects |= 1u << touch.lane;
  } else if (read_conflict(warp, view, reader, me, touch.lane)) {
    if (strong) race(warp, inst, view, touch, bytes, reader, "updates", "read");
    else if (!access->suspects) {
      access->prior = reader;
      access->prior_read = true;
    }
    access->suspects |= 1u << touch.lane;
  }
  view.cells->wrote[touch.cell] = me | (strong ? kCellFlag : 0);
}

size_t first_cell(const View& view) { return size_t(view.origin) >> view.cells->shift; }

// Whether all cells carry the same stamp with increasing lanes; then one comparison decides for all.
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

bool any_at_least(const uint32_t* cells, uint32_t count, uint32_t bound) {
  uint32_t any = 0;
  for (uint32_t i = 0; i < count; ++i) any |= cells[i] >= bound;
  return any != 0;
}

bool any_suspect_write(const uint32_t* cells, uint32_t count, uint32_t safe) {
  uint32_t any = 0;
  for (uint32_t i = 0; i < count; ++i) any |= cells[i] - 1 >= safe - 1;
  return any != 0;
}

bool contiguous_read(Warp& warp, const View& view, uint32_t per) {
  size_t cell = first_cell(view);
  uint32_t *wrote = view.cells->wrote + cell, *read = view.cells->read + cell, own = view.own;
  if (any_suspect_write(wrote, 32 * per, view.safe) &&
      !(wrote[0] && !(wrote[0] & kCellFlag) && lane_by_lane(wrote, per) &&
        ordered_before(warp, view.shared, wrote[0], 0)))
    return false;
  uint32_t flag = 0;
  if (any_at_least(read, 32 * per, view.safe)) {
    if (!lane_by_lane(read, per)) return false;
    uint32_t earlier = read[0];
    if ((earlier & ~kCellFlag) == own) return true;
    if (view.shared) flag = ordered_before(warp, true, earlier, 0) ? 0 : kCellFlag;
    else if (other_block(warp, earlier)) flag = ordered_before(warp, false, earlier, 0) ? 0 : kCellFlag;
    else {
      flag = earlier & kCellFlag;
      if (read_by_many(warp, view, earlier, own, 0)) flag += kMany;
    }
  }
  fill_lanes(read, per, [own, flag](uint32_t i) { return own + flag + i; });
  return true;
}

bool contiguous_write(Warp& warp, const View& view, uint32_t per) {
  size_t cell = first_cell(view);
  uint32_t *wrote = view.cells->wrote + cell, *read = view.cells->read + cell, own = view.own;
  if (any_at_least(wrote, 32 * per, view.safe) &&
      !(lane_by_lane(wrote, per) && ordered_before(warp, view.shared, wrote[0], 0)))
    return false;
  if (any_at_least(read, 32 * per, view.safe) &&
      !(lane_by_lane(read, per) && !read_conflict(warp, view, read[0], own, 0)))
    return false;
  fill_lanes(wrote, per, [own](uint32_t i) { return own + i; });
  return true;
}

template <class F>
void each_cell(const View& view, const Memo& memo, uint32_t bytes, F visit) {
  size_t per = bytes >> view.cells->shift;
  for (int place = 0; place < memo.unique_count; ++place) {
    int lane = memo.unique[place];
    size_t cell = size_t(view.origin + memo.delta[lane]) >> view.cells->shift;
    for (size_t j = 0; j < per; ++j) visit(Touch{cell + j, lane, memo.delta[lane]}, (memo.repeated >> place & 1) != 0);
  }
}

}  // namespace

bool ordered_before(Warp& warp, bool shared, uint32_t cell, int lane) {
  return shared ? shared_before(warp, cell, lane) : global_before(warp, cell, lane);
}

std::string name_other_access(Warp& warp, bool shared, uint32_t cell) {
  uint32_t stamp = cell >> 6;
  const Grid& grid = *warp.grid;
  if (stamp >> 5 == kPendingClock)
    return "an unfinished cp.async of " + name_thread(grid, warp.block->linear, int(stamp & 31), int(cell & 31));
  if (shared) return name_thread(grid, warp.block->linear, int(stamp & 31), int(cell & 31));
  if (const OperationSpan* span = grid.races->unordered_span(stamp))
    return span->what + " (operation " + std::to_string(span->operation) + ")";
  const Segment& segment = grid.races->at(stamp);
  if (segment.many && segment.block == warp.block->linear && segment.warp == warp.index)
    return "another thread of the block";
  return name_thread(grid, segment.block, segment.warp, int(cell & 31));
}

void shadow_read(Warp& warp, const Inst& inst, const View& view, const Memo& memo, uint32_t bytes, Strength strength) {
  if (bytes < (1u << view.cells->shift)) view.cells->refine(__builtin_ctz(bytes));
  bool strong = strength != Strength::Plain;
  if (memo.shape == Shape::Contiguous && !strong && contiguous_read(warp, view, bytes >> view.cells->shift)) return;
  each_cell(view, memo, bytes,
            [&](const Touch& touch, bool repeated) { read_cell(warp, inst, view, touch, bytes, strong, repeated); });
}

void shadow_write(Warp& warp, const Inst& inst, const View& view, const Memo& memo, uint32_t bytes, Strength strength,
                  Access* access) {
  if (bytes < (1u << view.cells->shift)) view.cells->refine(__builtin_ctz(bytes));
  if (memo.shape == Shape::Contiguous && strength == Strength::Plain &&
      contiguous_write(warp, view, bytes >> view.cells->shift))
    return;
  each_cell(view, memo, bytes,
            [&](const Touch& touch, bool) { write_cell(warp, inst, view, touch, bytes, strength, access); });
}

}  // namespace vgpu
