// SPDX-License-Identifier: Apache-2.0
// Shared by the parts of the tests' driver.
#pragma once

#include <cstddef>
#include <cuda.h>
#include <map>
#include <mutex>
#include <optional>

#include "tests/collectives/fake_gpu/stream.h"

namespace fake_gpu {

/// The calling thread's context; null: it has none.
CUcontext current_context();

/// Returns null if there is no context.
CUstream resolve(CUstream stream);

/// Dies without the context: the real driver may leak or crash.
void require_context(CUcontext context, const char* what);

/// Whether a capture in the global mode forbids the calling thread to wait or allocate.
bool is_forbidden();

inline void* at(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

/// Allocations, by address. Never destroyed, like the contexts.
class Memory {
 public:
  struct Piece {
    std::size_t bytes;
    CUmemorytype type;
    int device;
  };

  static Memory& all() {
    static auto* const memory = new Memory;
    return *memory;
  }

  void* allocate(std::size_t bytes, CUmemorytype type, int device) {
    void* const address = std::malloc(bytes);
    const std::lock_guard lock(mutex_);
    pieces_[static_cast<char*>(address)] = {bytes, type, device};
    return address;
  }

  void free(void* address) {
    {
      const std::lock_guard lock(mutex_);
      pieces_.erase(static_cast<char*>(address));
    }
    std::free(address);
  }

  /// Returns nullopt for memory that is not this driver's.
  std::optional<Piece> find(CUdeviceptr address) {
    auto* const place = static_cast<char*>(at(address));
    const std::lock_guard lock(mutex_);
    const auto after = pieces_.upper_bound(place);
    if (after == pieces_.begin()) return std::nullopt;
    const auto& [begin, piece] = *std::prev(after);
    return place < begin + piece.bytes ? std::optional(piece) : std::nullopt;
  }

 private:
  std::mutex mutex_;
  std::map<char*, Piece> pieces_;
};

}  // namespace fake_gpu
