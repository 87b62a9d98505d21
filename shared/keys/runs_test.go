//go:build !race

package keys_test

// runs is how many disturbed runs each of the five large changes gets, besides a
// death before and after each of its calls: 500 in all. Defects planted for the
// purpose were found by the 45th. make simulations plays more.
const runs = 100

// crowd is how many consumers the ledger's large bucket has: their records are
// several pages of a query.
const crowd = 10_000
