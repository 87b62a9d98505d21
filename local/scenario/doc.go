// Package scenario tests an installation from outside, as its users use it: real
// HTTP to the management API, archives put to upload addresses, requests to
// what is deployed. It holds no code but tests.
//
// Without anything else the tests start the product themselves, as `make run`
// does. With GATEWRIGHT_SCENARIO_API and GATEWRIGHT_SCENARIO_KEY they run
// against any installation whose gateway can reach this machine's loopback, where
// they start their upstreams (`make scenario BASE=… KEY=…`): the emulators' suites
// use the same tests. GATEWRIGHT_SCENARIO_GATEWAY is where requests to deployments
// are sent, whatever their host names; without it they go where the names lead.
// GATEWRIGHT_SCENARIO_RELAY is where agents of tunnels connect; without it the
// installation has no relay, and what needs one is skipped.
//
// With GATEWRIGHT_FUNCTIONS, a folder of bootstraps, the product that they start
// runs each function as a process of its own (`make test-lambda`).
//
// Read target_test.go first; each other file is one story.
package scenario
