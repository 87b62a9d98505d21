package trail

// Counting is what a transaction adds to the counters, for tests that write records
// past the chain.
type Counting = counters
