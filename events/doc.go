// Package events holds the samples of requests and events that tests of the
// whole product share.
//
//	GROUP/samples.json       good requests of a group's operations, and what has
//	                         to be there for them: written by people
//	GROUP/OPERATION.json     the same requests as API Gateway (REST, payload
//	                         version 1) hands them to Lambda: derived
//	FUNCTION/*.json          what S3, the table's stream, the scheduler and
//	                         operators hand to the functions that no route calls
//	platforms/*.json         one request as AWS and the emulators decode it
//
// The authorization sweep, the scenarios of a running product, the examples in
// the OpenAPI document and the comparison of grants all take their requests from
// samples.json, so that a group says once what its operations look like.
//
// What it is not: part of the product. Nothing but tests imports it. Read
// samples.go; events_test.go runs each event through its function's own edge.
// The shapes are those that AWS documents and that the emulators were seen to
// send (docs/decisions/0017-a-route-for-each-operation.md, docs/emulators.md).
// The accounts, ids and keys in the files are nobody's.
package events
