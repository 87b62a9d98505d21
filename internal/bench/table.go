package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
)

// scenario is a section of docs/performance.md.
type scenario struct {
	title string
	text  string // of the page, above the figures
	// options are NAME=VALUE with spaces between them: how much is measured, which -set changes.
	options string
	// onDemand is true for a scenario that takes longer than all others. It is measured only if -only is its whole title.
	onDemand bool
	run      func(ctx context.Context, m *measurement) error
}

// golden is in the place of the options where nothing is measured: a test keeps the figures.
const golden = "(kept by a test)"

// scenarios are all sections, in the order of the page.
func scenarios() []scenario {
	return slices.Concat(
		[]scenario{{
			title: "What an operation asks of the database",
			text: "Round trips and capacity units per operation. Kept by `shared/keys`' tests as a golden: a change of it is a change of code.\n" +
				"Each is measured in a bucket of 1,000 and in one of 10,000 consumers, and has to cost the same in both.",
			options: golden,
			run: func(_ context.Context, m *measurement) error {
				text, err := os.ReadFile("shared/keys/testdata/ledger.txt")
				if err != nil {
					return fmt.Errorf("read the golden: %w", err)
				}
				m.Printf("```text\n%s\n```", strings.TrimRight(string(text), "\n"))
				return nil
			},
		}},
		checkouts(),
		requests(),
		tunnels(),
		processes(),
		surfaces(),
		largeProject(),
		starts(),
		archives(),
		developing(),
		accounts(),
		console(),
		rotations(),
		largeBuckets(),
		crashes(),
		moving(),
	)
}
