#include "wick/dist/detail/peer_collectives.h"

#include <algorithm>
#include <cstring>

#include "wick/dist/detail/reduction.h"

namespace wick::dist {

namespace {

// Up to here all ranks send all, and each reduces it all: one message each way.
constexpr int64_t kMostBytesAtOnce = 1 << 13;

size_t bytes_of(const Tensor& x) { return static_cast<size_t>(x.numel() * size_of(x.dtype())); }

char* address_in(const Tensor& x, int64_t element) {
  return static_cast<char*>(x.raw_data()) + element * size_of(x.dtype());
}

// Elements of a message as a tensor. Nobody writes to what was received.
Tensor tensor_at(const void* data, int64_t count, Dtype dtype) {
  return from_blob(const_cast<void*>(data), {count}, dtype);
}

}  // namespace

std::vector<int> PeerCollectives::others() const {
  std::vector<int> ranks;
  for (int i = 1; i < size(); ++i) ranks.push_back((rank_ + i) % size());
  return ranks;
}

void PeerCollectives::send(int to, const void* data, size_t bytes) const {
  for (size_t done = 0; done < bytes;) {
    const size_t count = std::min(bytes - done, link(to).slot_bytes());
    std::memcpy(link(to).begin_send(), static_cast<const char*>(data) + done, count);
    link(to).end_send(count);
    done += count;
  }
}

void PeerCollectives::receive(int from, void* data, size_t bytes) const {
  for (size_t done = 0; done < bytes;) {
    const size_t count = std::min(bytes - done, link(from).slot_bytes());
    std::memcpy(static_cast<char*>(data) + done, link(from).receive(count), count);
    link(from).release();
    done += count;
  }
}

int64_t PeerCollectives::slot_elements(Dtype dtype) const {
  size_t bytes = SIZE_MAX;
  for (const int r : others()) bytes = std::min(bytes, link(r).slot_bytes());
  return static_cast<int64_t>(bytes) / size_of(dtype);
}

void PeerCollectives::send_part(int to, const Tensor& x, Range range) const {
  send(to, address_in(x, range.begin), static_cast<size_t>(range.count * size_of(x.dtype())));
}

void PeerCollectives::receive_part(int from, const Tensor& x, Range range) const {
  receive(from, address_in(x, range.begin), static_cast<size_t>(range.count * size_of(x.dtype())));
}

std::vector<Tensor> PeerCollectives::receive_parts(const Tensor& mine) const {
  std::vector<Tensor> parts;
  for (int r = 0; r < size(); ++r) {
    parts.push_back(
        r == rank_ ? mine : tensor_at(link(r).receive(bytes_of(mine)), mine.numel(), mine.dtype()));
  }
  return parts;
}

void PeerCollectives::release_parts() const {
  for (const int r : others()) link(r).release();
}

void PeerCollectives::all_reduce(const Tensor& x, ReduceOp op) const {
  const int64_t n = x.numel();
  if (n == 0 || size() == 1) return;
  if (static_cast<int64_t>(bytes_of(x)) <= kMostBytesAtOnce && slot_elements(x.dtype()) >= n) {
    return all_reduce_at_once(x, op);
  }
  // Blocks of one slot per rank. Each rank reduces its part of a block and gives it to the others;
  // meanwhile the parts of the next block are under way.
  const int64_t slot = slot_elements(x.dtype()), block = slot * size();
  const int64_t blocks = (n + block - 1) / block;
  const auto range_of = [&](int64_t number, int r) {
    const int64_t begin = number * block, count = std::min(block, n - begin);
    const int64_t part = (count + size() - 1) / size(), first = std::min(count, r * part);
    return Range{begin + first, std::min(part, count - first)};
  };
  for (int64_t b = 0; b < blocks + 2; ++b) {
    if (b < blocks) {
      for (const int r : others()) send_part(r, x, range_of(b, r));
    }
    if (b >= 1 && b <= blocks) reduce_and_share(x, range_of(b - 1, rank_), op);
    if (b >= 2) {
      for (const int r : others()) receive_part(r, x, range_of(b - 2, r));
    }
  }
}

void PeerCollectives::all_reduce_at_once(const Tensor& x, ReduceOp op) const {
  for (const int r : others()) send(r, x.raw_data(), bytes_of(x));
  const Tensor result = empty({x.numel()}, x.dtype());
  reduce_parts(receive_parts(x), op, result);
  release_parts();
  std::memcpy(x.raw_data(), result.raw_data(), bytes_of(x));
}

// Reduces where the first of the others will read it.
void PeerCollectives::reduce_and_share(const Tensor& x, Range mine, ReduceOp op) const {
  if (mine.count == 0) return;
  const auto bytes = static_cast<size_t>(mine.count * size_of(x.dtype()));
  const std::vector<int> others = this->others();
  void* const shared = link(others[0]).begin_send();
  const Tensor part = tensor_at(address_in(x, mine.begin), mine.count, x.dtype());
  reduce_parts(receive_parts(part), op, tensor_at(shared, mine.count, x.dtype()));
  release_parts();
  std::memcpy(part.raw_data(), shared, bytes);
  link(others[0]).end_send(bytes);
  for (size_t i = 1; i < others.size(); ++i) send(others[i], part.raw_data(), bytes);
}

void PeerCollectives::broadcast(const Tensor& x, int root) const {
  const int64_t n = x.numel();
  if (n == 0 || size() == 1) return;
  const int64_t slot = slot_elements(x.dtype());
  for (int64_t begin = 0; begin < n; begin += slot) {
    const Range range{begin, std::min(slot, n - begin)};
    if (rank_ == root) {
      for (const int r : others()) send_part(r, x, range);
    } else {
      receive_part(root, x, range);
    }
  }
}

void PeerCollectives::all_gather(const Tensor& x, const Tensor& result) const {
  const int64_t n = x.numel();
  if (n == 0) return;
  std::memcpy(address_in(result, rank_ * n), x.raw_data(), bytes_of(x));
  if (size() == 1) return;
  const int64_t slot = slot_elements(x.dtype()), chunks = (n + slot - 1) / slot;
  for (int64_t c = 0; c <= chunks; ++c) {
    const auto range_of = [&](int64_t number, int64_t offset) {
      return Range{offset + number * slot, std::min(slot, n - number * slot)};
    };
    if (c < chunks) {
      for (const int r : others()) send_part(r, x, range_of(c, 0));
    }
    if (c >= 1) {
      for (const int r : others()) receive_part(r, result, range_of(c - 1, r * n));
    }
  }
}

void PeerCollectives::reduce_scatter(const Tensor& x, const Tensor& result, ReduceOp op) const {
  const int64_t n = result.numel();
  if (n == 0) return;
  if (size() == 1) {
    std::memcpy(result.raw_data(), x.raw_data(), bytes_of(result));
    return;
  }
  const int64_t slot = slot_elements(x.dtype()), chunks = (n + slot - 1) / slot;
  for (int64_t c = 0; c <= chunks; ++c) {
    if (c < chunks) {
      const int64_t count = std::min(slot, n - c * slot);
      for (const int r : others()) send_part(r, x, {r * n + c * slot, count});
    }
    if (c >= 1) {
      const int64_t begin = (c - 1) * slot, count = std::min(slot, n - begin);
      const Tensor mine = tensor_at(address_in(x, rank_ * n + begin), count, x.dtype());
      reduce_parts(receive_parts(mine), op, tensor_at(address_in(result, begin), count, x.dtype()));
      release_parts();
    }
  }
}

void PeerCollectives::finish() const {
  for (const int r : others()) link(r).finish();
}

}  // namespace wick::dist
