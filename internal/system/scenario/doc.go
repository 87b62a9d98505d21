// Package scenario tests an installation from outside, as its users use it: with HTTP requests to the management API, archives that are
// sent to upload addresses, and requests to deployments. It contains only tests.
//
// By default the tests start the product themselves, as `make run` does. With GATEWRIGHT_SCENARIO_API and
// GATEWRIGHT_SCENARIO_KEY they run against any installation whose gateway can connect to the loopback address of this
// machine, where the tests start their upstreams (`make scenario BASE=… KEY=…`). The emulators' suites use the same
// tests. GATEWRIGHT_SCENARIO_GATEWAY is the address to which requests to deployments are sent, with any host name;
// without it, the requests go to the addresses of their host names. GATEWRIGHT_SCENARIO_RELAY is the address to which
// agents of tunnels connect; without it the installation has no relay, and tests that need one are skipped.
//
// With GATEWRIGHT_FUNCTIONS, a folder of bootstraps, the product that the tests start runs each function as a separate process (`make
// test-lambda`).
//
// Read target_test.go first; each other file is one story.
package scenario
