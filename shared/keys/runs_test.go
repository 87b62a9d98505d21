//go:build !race

package keys_test

// runs is how many disturbed runs each of the five large changes gets, beside a
// death before and after each of its calls: 2,000 in all.
const runs = 400

// crowds are the sizes of buckets whose costs the ledger compares.
var crowds = [2]int{1_000, 100_000}
