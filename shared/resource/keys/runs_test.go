//go:build !race

package keys_test

// runs is the number of random runs for each of the five large changes, 500 in total. There are also runs with a crash
// before and after each call. The planted defects are found within 45 runs. `make simulations` does more runs.
const runs = 100

// largeBucketSize is the number of consumers in the ledger's large bucket. A query of their records has several pages.
const largeBucketSize = 10_000
