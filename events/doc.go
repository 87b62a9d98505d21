// Package events contains the samples of requests and events that tests of the whole product share.
//
//	GROUP/samples.json       valid requests of a group's operations, and the
//	                         requests that they need first: written by people
//	GROUP/OPERATION.json     the same requests as API Gateway (REST, payload
//	                         version 1) passes them to Lambda: derived
//	FUNCTION/*.json          events of S3, the table's stream, the scheduler and
//	                         operators for the functions that no route calls
//	platforms/*.json         one request as AWS and the emulators decode it
//
// The authorization sweep, the scenarios of a running product, the examples in the OpenAPI document and the comparison
// of grants all take their requests from samples.json, so each group defines its sample requests only once.
//
// It is not part of the product: only tests, and package functionstest for tests, import it. Read samples.go;
// events_test.go runs each event through the handler of its function. The events have the form that AWS documents and
// that the emulators send (docs/decisions/0017-a-route-for-each-operation.md, docs/emulators.md). The accounts, ids and
// keys in the files are invented.
package events
