// Package validationpeer compares request-validation-inbound with openapi-core, a validator in Python, which was written
// by others. It contains only tests: they generate requests for the descriptions in testdata, send them to a gateway,
// and give them to openapi-core. Both have to accept or to refuse a request.
//
//	requirements.txt         the packages of Python, with their versions
//	peer.py                  checks requests with openapi-core
//	testdata/v30.oas.json    operations of OpenAPI 3.0, and their valid values as examples
//	testdata/v31.oas.json    the same for OpenAPI 3.1
//	testdata/values.json     values that parsers read differently
//	testdata/reasons.json    the reasons why results can differ, and who is right
//
// Of the validators in Node and Python, openapi-core reads most styles of parameters, forms and readOnly.
// It is not always right: each reason names the side that is right, and quotes a specification for it. The validator
// reads from a pipe, and opens no port.
//
// It does not test what a description means for tools, nor responses. Read compare_test.go first, then
// generate_test.go.
package validationpeer
