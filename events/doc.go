// Package events holds a real event for each operation and for each thing that
// calls a function: what API Gateway (REST, payload version 1), S3, the table's
// stream and the scheduler hand to Lambda, as JSON files. There is no code here
// but the tests that run each of them through the function's own edge.
//
//	GROUP/OPERATION.json     requests, derived from the declarations
//	FUNCTION/*.json          what calls the other functions
//	platforms/*.json         one request as AWS and the emulators decode it
//
// Read events_test.go. The shapes are those that AWS documents and that the
// emulators were seen to send (docs/decisions/0092). The accounts, ids and keys
// in the files are nobody's.
package events
