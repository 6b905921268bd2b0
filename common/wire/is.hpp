// For lists of the members of a record: wire_fields.hpp, common/text/json_value.hpp.
#pragma once

#include <concepts>
#include <type_traits>

namespace nodestage {

// M is T or const T, so that one list of fields serves for reading and for writing.
template <typename M, typename T>
concept Is = std::same_as<std::remove_const_t<M>, T>;

}  // namespace nodestage
