package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatewright/gatewright/internal/bench/fixture"
)

// measurement is the argument of a scenario: the environment that starts processes, the scenario's options, and the
// report that the scenario fills.
type measurement struct {
	*fixture.Env
	report
	settings
}

// report is the Markdown of a scenario, with a list of the figures that are over their limits.
type report struct {
	text     strings.Builder
	table    bool // whether the text ends with a table of figures
	exceeded []string
}

// Row adds a row with a figure to the table, or begins a new table. limit is "" for a figure without a limit. within
// reports whether the figure is within its limit.
func (r *report) Row(name, limit, figure string, within bool) {
	if !r.table {
		r.text.WriteString("\n| figure | limit | here |\n|---|---|---|\n")
		r.table = true
	}
	fmt.Fprintf(&r.text, "| %s | %s | %s |\n", name, limit, figure)
	if limit != "" && !within {
		r.Exceeds("%s: %s, and the limit is %s", name, figure, limit)
	}
}

// Printf adds text, and ends the table.
func (r *report) Printf(format string, args ...any) {
	r.table = false
	fmt.Fprintf(&r.text, format, args...)
}

// Exceeds adds a figure to the list of figures that are over their limits.
func (r *report) Exceeds(format string, args ...any) {
	r.exceeded = append(r.exceeded, fmt.Sprintf(format, args...))
}

// Err returns an error with all figures that are over their limits, or nil if there are none.
func (r *report) Err() error {
	if len(r.exceeded) == 0 {
		return nil
	}
	return fmt.Errorf("over the limit: %s", strings.Join(r.exceeded, "; "))
}

// String returns the Markdown.
func (r *report) String() string { return r.text.String() }

// values are the values of options by name. It implements flag.Value for -set.
type values map[string]string

// String implements flag.Value.
func (v values) String() string { return "" }

// Set implements flag.Value.
func (v values) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("%q is not an option: write NAME=VALUE", text)
	}
	v[name] = value
	return nil
}

// settings are the options of a scenario with their values.
type settings struct{ values values }

// settings returns the options of the scenario: the defaults, replaced by changes.
func (s scenario) settings(changes values) settings {
	all := values{}
	for _, option := range strings.Fields(s.options) {
		name, value, _ := strings.Cut(option, "=")
		if changed, ok := changes[name]; ok {
			value = changed
		}
		all[name] = value
	}
	return settings{all}
}

// checkOptions returns an error if none of the scenarios has a changed option, or if the new value of a number is not a
// number.
func checkOptions(selected []scenario, changes values) error {
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		found := false
		for _, s := range selected {
			value, ok := s.settings(nil).values[name]
			found = found || ok
			if _, err := strconv.Atoi(value); ok && err == nil {
				if _, err := strconv.Atoi(changes[name]); err != nil {
					return fmt.Errorf("-set %s=%s: %q is not a number", name, changes[name], changes[name])
				}
			}
		}
		if !found {
			return fmt.Errorf("-set %s: no scenario that is measured has this option: -list lists them", name)
		}
	}
	return nil
}

// Text returns the value of an option.
func (s settings) Text(name string) string {
	value, ok := s.values[name]
	if !ok {
		panic("the scenario declares no option " + name)
	}
	return value
}

// Number returns the value of an option whose default is a number.
func (s settings) Number(name string) int {
	n, err := strconv.Atoi(s.Text(name))
	if err != nil {
		panic(err) // checkOptions has checked the value
	}
	return n
}

// Numbers returns the value of an option that is a list of numbers, separated by commas.
func (s settings) Numbers(name string) (all []int, err error) {
	for text := range strings.SplitSeq(s.Text(name), ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("-set %s: write numbers separated by commas: %w", name, err)
		}
		all = append(all, n)
	}
	return all, nil
}

// medianAndLongest sorts times, and returns the median and the longest of them. times must not be empty.
func medianAndLongest(times []time.Duration) (median, longest time.Duration) {
	slices.Sort(times)
	return times[len(times)/2], times[len(times)-1]
}

// millis returns a duration as a text in milliseconds.
func millis(d time.Duration) string { return fmt.Sprintf("%.0f ms", d.Seconds()*1e3) }

// megabytes returns a number of bytes as a text in units of 2^20 bytes.
func megabytes(bytes int64) string { return fmt.Sprintf("%.0f MB", float64(bytes)/(1<<20)) }
