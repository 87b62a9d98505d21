// Package server has the tests of one server, as `gatewright serve` is started on a machine with a
// domain: by HTTPS, with certificates that an authority gives by ACME or that lie in files.
//
// TestScenarioSuite has the scenario suite (package scenario) go through such a server, where
// GATEWRIGHT_TEST_SERVER is set: `make test-server`.
package server
