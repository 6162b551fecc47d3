// One group of the table in kernels.cuh.
#include "kernels.cuh"

static const bool added = add_for_every_variant<EveryStages<bf16, LoadMode::cp_async, false>>();
