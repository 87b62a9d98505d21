// Package operations is the function that advances durable operations: it is
// called with batches of the table's stream, for what has just begun or was
// given back, and once a minute, for what is due and what got stuck (design,
// section 6).
//
// No route leads here, and it knows no kind of operation: those come with the
// engine. Read function.go; what advancing means is package operation in shared.
package operations
