package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/bench/fixture"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childCommand {
		if err := runRole(context.Background(), os.Args[2:]); err != nil {
			os.Exit(1)
		}
		return
	}
	if behavior := os.Getenv(varBehavior); behavior != "" {
		os.Exit(runFakeGateway(behavior))
	}
	os.Exit(m.Run())
}

// TestPageContainsMeasuredSections checks that the page has the new sections, and that sections that were not measured
// stay. A section that fails contains the failure, and the run then returns an error.
func TestPageContainsMeasuredSections(t *testing.T) {
	all := []scenario{
		{title: "One", text: "text of one", options: "n=1", run: func(_ context.Context, m *measurement) error {
			m.Row("value", "5", m.Text("n"), m.Number("n") <= 5)
			return nil
		}},
		{title: "One and more", text: "text of two", run: func(_ context.Context, m *measurement) error {
			m.Row("value", "", "2", true)
			return errors.New("broken")
		}},
		{title: "Three", text: "text of three"},
	}
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("# Performance\n\n## One\n\nold\n\n## Three\n\nold figures\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		only     string
		changes  values
		fails    string
		contains []string
	}{
		{"One", nil, "", []string{
			"## One\n\ntext of one\nAlone: `go run ./internal/bench -only 'One'`", "| value | 5 | 1 |",
			"## Three\n\nold figures",
		}},
		{
			"One",
			values{"n": "6"},
			"one: over the limit: value: 6, and the limit is 5",
			[]string{"| value | 5 | 6 |", "**A figure is over its limit"},
		},
		{"One ", nil, "one and more: broken", []string{"| value | 5 | 6 |", "| value |  | 2 |", "## Three\n\nold figures"}},
		{"Four", nil, "no scenario has this text in its title", nil},
		{"One", values{"m": "6"}, "no scenario that is measured has this option", nil},
		{"One", values{"n": "x"}, `"x" is not a number`, nil},
	} {
		err := write(t.Context(), t.TempDir(), page, selectScenarios(all, test.only), all, test.changes)
		if test.fails == "" && err != nil || test.fails != "" && (err == nil || !strings.Contains(err.Error(), test.fails)) {
			t.Errorf("-only %q -set %v: write() error = %v, want one with %q, or none if this is empty", test.only,
				test.changes, err, test.fails)
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range test.contains {
			if !strings.Contains(string(text), want) {
				t.Errorf("-only %q -set %v: the page lacks %q:\n%s", test.only, test.changes, want, text)
			}
		}
	}
}

// TestInterruptKeepsFinishedSections checks that, after an interrupt, the page has the sections that were finished, and
// that the other sections are unchanged. All scenarios together take hours.
func TestInterruptKeepsFinishedSections(t *testing.T) {
	ctx, interrupt := context.WithCancelCause(t.Context())
	row := func(_ context.Context, m *measurement) error {
		m.Row("value", "", "new", true)
		return nil
	}
	all := []scenario{
		{title: "One", text: "first", run: row},
		{title: "Two", text: "second", run: func(ctx context.Context, m *measurement) error {
			m.Row("value", "", "half", true)
			interrupt(errors.New("interrupted"))
			return context.Cause(ctx)
		}},
		{title: "Three", text: "third", run: row},
	}
	file := filepath.Join(t.TempDir(), "page.md")
	const before = "# Performance\n\n## One\n\nold one\n\n## Two\n\nold two\n\n## Three\n\nold three\n"
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(ctx, t.TempDir(), file, all, all, nil); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("write() = %v, want the cause of its context", err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for part, want := range map[string]bool{
		"| value |  | new |": true, "old one": false, "half": false,
		"\n## Two\n\nold two\n": true, "\n## Three\n\nold three\n": true,
	} {
		if got := strings.Contains(string(text), part); got != want {
			t.Errorf("the page contains %q = %t, want %t:\n%s", part, got, want, text)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(file)); err != nil || len(entries) != 1 {
		t.Errorf("the folder of the page also has %v, %v, want only the page", entries, err)
	}
}

// TestProcessesStopWithTheScenario checks that the processes of a scenario stop with the scenario, no matter how the scenario ends.
func TestProcessesStopWithTheScenario(t *testing.T) {
	for name, end := range map[string]func() error{
		"well": func() error {
			return nil
		}, "with an error": func() error { return errors.New("broken") }, "with a panic": func() error { panic("broken") },
	} {
		stopped := false
		m := &measurement{Env: &fixture.Env{Dir: t.TempDir()}}
		func() {
			defer func() { _ = recover() }()
			_ = m.measure(t.Context(), scenario{run: func(_ context.Context, m *measurement) error {
				m.Cleanup(func() { stopped = true })
				return end()
			}})
		}()
		if !stopped {
			t.Errorf("a process that a scenario has started still runs after the scenario ended %s, want it stopped", name)
		}
	}
}

// TestLongScenariosRunOnDemand checks that a scenario that runs on demand is selected only by its complete title.
func TestLongScenariosRunOnDemand(t *testing.T) {
	all := []scenario{{title: "Short"}, {title: "Not short", onDemand: true}}
	for only, want := range map[string]string{"": "Short", "hort": "Short", "Not": "", "Not short": "Not short"} {
		var titles []string
		for _, s := range selectScenarios(all, only) {
			titles = append(titles, s.title)
		}
		if got := strings.Join(titles, ", "); got != want {
			t.Errorf("selectScenarios(%q) = %q, want %q", only, got, want)
		}
	}
}

func TestScenarioTitlesAreUnique(t *testing.T) {
	titles := map[string]bool{}
	for _, s := range scenarios() {
		if titles[s.title] {
			t.Errorf("scenarios() has the title %q twice, want unique titles", s.title)
		}
		if s.run == nil || s.text == "" {
			t.Errorf("scenario %q: run is nil = %v, text = %q, want a function and a text", s.title, s.run == nil, s.text)
		}
		titles[s.title] = true
	}
}
