// One group of the table in kernels.cuh.
#include "kernels.cuh"

static const bool added = add_for_every_variant<EveryStages<fp16, LoadMode::ld_global, false>>();
