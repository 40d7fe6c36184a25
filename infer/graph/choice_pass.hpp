// The pass for rows that are chosen behind what is computed of all of them: DETR's boxes of the best queries, as
// exporters write them.
//
// Threads: a function of its argument, [any]. Private to infer/.
#pragma once

#include "infer/graph/graph.hpp"

namespace camd::infer {

// A Pick of whole rows of [1, rows, n] moves in front of the products with constants and the arithmetic that make them,
// where nothing else reads these. So only the rows that are chosen are computed. Rows of one value that are chosen by
// the same numbers are chosen once.
void choose_rows_first(Graph& graph);

}  // namespace camd::infer
