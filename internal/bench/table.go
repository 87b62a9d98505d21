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
	text  string // the text of the section, above the figures
	// options are the options with their defaults, as NAME=VALUE separated by spaces. -set changes them.
	options string
	// onDemand is true for a scenario that takes very long. It is measured only if -only is its whole title.
	onDemand bool
	run      func(ctx context.Context, m *measurement) error
}

// golden is the value of options for a scenario that measures nothing, because a test keeps its figures up to date.
const golden = "(kept by a test)"

// scenarios returns all scenarios, in the order of the page.
func scenarios() []scenario {
	return slices.Concat(
		[]scenario{{
			title: "What an operation asks of the database",
			text: "Round trips and capacity units per operation. The tests of `shared/resource/keys` compare them with a " +
				"golden file, so that only a change of the code changes them.\n" +
				"Each operation is measured in a bucket of 1,000 consumers and in one of 10,000, and has to cost the same in both.",
			options: golden,
			run: func(_ context.Context, m *measurement) error {
				text, err := os.ReadFile("shared/resource/keys/testdata/ledger.txt")
				if err != nil {
					return fmt.Errorf("read the golden: %w", err)
				}
				m.Printf("```text\n%s\n```", strings.TrimRight(string(text), "\n"))
				return nil
			},
		}},
		checkoutScenarios(),
		requests(),
		tunnels(),
		processScenarios(),
		surfaces(),
		validations(),
		policies(),
		largeProject(),
		starts(),
		archives(),
		devScenarios(),
		accounts(),
		console(),
		rotations(),
		largeBuckets(),
		crashes(),
		moveScenarios(),
	)
}
