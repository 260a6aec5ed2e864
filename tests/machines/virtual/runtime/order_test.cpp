// Vector clocks over lanes against the plain definition: what can be reached in random graphs of operations.
#include <cstdio>
#include <random>
#include <set>
#include <vector>

#include "order.h"

using executor::Operation;
using executor::Order;

int main() {
  std::mt19937 draw(7);
  for (int trial = 0; trial < 200; ++trial) {
    Order order;
    std::vector<std::set<Operation>> reached(1);  // what each comes after
    std::set<Operation> host;
    for (Operation next = 1; next <= 60; ++next) {
      std::vector<Operation> after;
      std::set<Operation> known = host;
      for (int i = 0; next > 1 && i < int(draw() % 3); ++i) {
        Operation earlier = 1 + draw() % (next - 1);
        after.push_back(earlier);
        known.insert(earlier);
        known.insert(reached[earlier].begin(), reached[earlier].end());
      }
      if (order.add(after) != next) return std::puts("numbers are not given in order"), 1;
      reached.push_back(known);
      if (draw() % 10 == 0) {
        Operation seen = 1 + draw() % next;
        order.host_waited_for(seen);
        host.insert(seen);
        host.insert(reached[seen].begin(), reached[seen].end());
      }
    }
    for (Operation a = 1; a <= 60; ++a)
      for (Operation b = 1; b <= 60; ++b)
        if (order.before(a, b) != (a != b && reached[b].count(a) > 0))
          return std::printf("trial %d: %u before %u\n", trial, a, b), 1;
  }
  return 0;
}
