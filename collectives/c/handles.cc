// SPDX-License-Identifier: Apache-2.0
#include "collectives/c/handles.h"

#include <cstdlib>
#include <new>

#include "ddp/dlpack.h"

namespace ddp::c {
namespace {

static_assert(DDP_LEFT == static_cast<int>(ErrorKind::left) + 1);
static_assert(DDP_OPAQUE == static_cast<int>(DataType::opaque));
static_assert(DDP_UINT64 == static_cast<int>(DataType::uint64));

/// An error with what it points to.
struct OwnedError : ddp_error {
  std::string sentence;
  std::vector<int> lost;
};

/// The error that is returned if there is no memory for another one.
ddp_error out_of_memory = {.kind = DDP_SYSTEM,
                           .rank = kNoRank,
                           .lost_ranks = nullptr,
                           .lost_count = 0,
                           .text = "ddp: out of memory"};

ddp_error* make_error(ErrorKind kind, int rank, const char* sentence, std::vector<int> lost = {}) {
  auto owned = std::make_unique<OwnedError>();
  owned->sentence = sentence;
  owned->lost = std::move(lost);
  owned->kind = static_cast<ddp_error_kind>(static_cast<int>(kind) + 1);
  owned->rank = rank;
  owned->lost_ranks = owned->lost.data();
  owned->lost_count = owned->lost.size();
  owned->text = owned->sentence.c_str();
  return owned.release();
}

/// DLTensor of dlpack.h, whose layout never changes.
struct DlTensor {
  void* data;
  struct {
    std::int32_t device_type;
    std::int32_t device_id;
  } device;
  std::int32_t ndim;
  struct {
    std::uint8_t code;
    std::uint8_t bits;
    std::uint16_t lanes;
  } dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};

ddp_buffer buffer_for_c(const Buffer& buffer) {
  return {.data = buffer.data,
          .count = buffer.count,
          .type = static_cast<ddp_type>(buffer.type),
          .on_device = buffer.on_device ? 1 : 0,
          .stream = buffer.stream,
          .width = buffer.width};
}

}  // namespace

ddp_error* current_error(int rank) {
  try {
    try {
      throw;
    } catch (const Error& error) {
      return make_error(error.kind(), rank, error.what(), error.lost_ranks());
    } catch (const std::exception& error) {
      return make_error(ErrorKind::system, rank, (std::string("ddp: ") + error.what()).c_str());
    } catch (...) {
      return make_error(ErrorKind::system, rank, "ddp: an exception of another type");
    }
  } catch (const std::bad_alloc&) {
    return &out_of_memory;
  }
}

void throw_error(ddp_error* error) {
  if (error == nullptr) return;
  const Error copy(static_cast<ErrorKind>(error->kind - 1), error->text);
  ddp_error_free(error);
  throw copy;
}

void refuse(const std::string& what) {
  throw Error(ErrorKind::usage, "ddp: " + what);
}

ddp_list* make_list(std::span<const std::string> strings) {
  std::size_t size = sizeof(ddp_list) + strings.size() * sizeof(ddp_bytes);
  for (const std::string& each : strings) size += each.size();
  auto* const list = static_cast<ddp_list*>(std::malloc(size));
  if (list == nullptr) throw std::bad_alloc();
  auto* const items = reinterpret_cast<ddp_bytes*>(list + 1);
  char* data = reinterpret_cast<char*>(items + strings.size());
  for (std::size_t i = 0; i < strings.size(); ++i) {
    strings[i].copy(data, strings[i].size());
    items[i] = {.data = data, .size = strings[i].size()};
    data += strings[i].size();
  }
  *list = {.items = items, .count = strings.size()};
  return list;
}

std::vector<std::string> strings_of(const ddp_list* list, const char* name) {
  std::vector<std::string> strings;
  for (const ddp_bytes& each : std::span(need(list, name).items, list->count)) {
    strings.emplace_back(view_of(&each, name));
  }
  return strings;
}

Buffer buffer_of(const ddp_buffer* buffer) {
  if (buffer == nullptr) return {};
  const auto type = static_cast<int>(buffer->type);
  if (type < 0 || type > DDP_OPAQUE) refuse("there is no type " + std::to_string(type));
  if (buffer->data == nullptr && buffer->count != 0) refuse("a buffer's data is NULL");
  Buffer result(buffer->data, buffer->count, static_cast<DataType>(type));
  result.on_device = buffer->on_device != 0;
  result.stream = static_cast<CUstream_st*>(buffer->stream);
  if (result.type == DataType::opaque) {
    if (buffer->width == 0) refuse("a buffer of type DDP_OPAQUE has width 0");
    result.width = buffer->width;
  }
  return result;
}

std::vector<Buffer> buffers_of(const ddp_buffer* buffers, std::size_t count) {
  std::vector<Buffer> result;
  for (const ddp_buffer& each : std::span(buffers, count)) result.push_back(buffer_of(&each));
  return result;
}

}  // namespace ddp::c

using namespace ddp::c;

int ddp_c_version() {
  return DDP_C_VERSION;
}

void ddp_error_free(ddp_error* error) {
  if (error == nullptr || error == &out_of_memory) return;
  delete static_cast<OwnedError*>(error);
}

ddp_error* ddp_error_make(ddp_error_kind kind, const char* text) {
  return guarded(kNoRank, [&] {
    if (kind < DDP_USAGE || kind > DDP_SYSTEM)
      refuse("there is no kind of errors " + std::to_string(kind));
    throw ddp::Error(static_cast<ddp::ErrorKind>(kind - 1), &need(text, "text"));
  });
}

ddp_error* ddp_view(const void* tensor, void* stream, ddp_buffer* buffer) {
  return guarded(kNoRank, [&] {
    const auto& dl = need(static_cast<const DlTensor*>(tensor), "tensor");
    need(buffer, "buffer") = buffer_for_c(ddp::view(dl, static_cast<CUstream_st*>(stream)));
  });
}

void ddp_list_free(ddp_list* list) {
  std::free(list);
}
