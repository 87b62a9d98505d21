package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatewright/gatewright/internal/bench/world"
)

// measurement is what a scenario is given: a world in which it starts things, its options, and the report that it fills.
type measurement struct {
	*world.World
	report
	settings
}

// report is the Markdown of a scenario, and the figures in it that are over their limits.
type report struct {
	text  strings.Builder
	table bool // whether the text ends with a table of figures
	over  []string
}

// Row adds a figure. An empty limit is for a figure that has none.
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

// Printf adds text.
func (r *report) Printf(format string, args ...any) {
	r.table = false
	fmt.Fprintf(&r.text, format, args...)
}

// Exceeds adds a figure that is over its limit.
func (r *report) Exceeds(format string, args ...any) {
	r.over = append(r.over, fmt.Sprintf(format, args...))
}

// Err returns an error that names the figures over their limits, nil for none.
func (r *report) Err() error {
	if len(r.over) == 0 {
		return nil
	}
	return fmt.Errorf("over the limit: %s", strings.Join(r.over, "; "))
}

// String returns the Markdown.
func (r *report) String() string { return r.text.String() }

// values are options by name, as -set gives them.
type values map[string]string

// String implements flag.Value.
func (v values) String() string { return "" }

// Set implements flag.Value.
func (v values) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("%q is not NAME=VALUE", text)
	}
	v[name] = value
	return nil
}

// settings are the options of a scenario with their values.
type settings struct{ values values }

// settings returns the options of a scenario, changed.
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

// known fails if no scenario has an option that is changed, or if a number is changed to something else.
func known(some []scenario, changes values) error {
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		found := false
		for _, s := range some {
			value, has := s.settings(nil).values[name]
			found = found || has
			if _, err := strconv.Atoi(value); has && err == nil {
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

// Text returns an option.
func (s settings) Text(name string) string {
	value, ok := s.values[name]
	if !ok {
		panic("the scenario declares no option " + name)
	}
	return value
}

// Number returns an option whose default is a number.
func (s settings) Number(name string) int {
	n, err := strconv.Atoi(s.Text(name))
	if err != nil {
		panic(err) // known has checked it
	}
	return n
}

// Numbers returns an option that is a list of numbers with commas between them.
func (s settings) Numbers(name string) (all []int, err error) {
	for text := range strings.SplitSeq(s.Text(name), ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("read the option %s: %w", name, err)
		}
		all = append(all, n)
	}
	return all, nil
}

// sorted returns the median and the longest of times, of which there is at least one.
func sorted(times []time.Duration) (median, longest time.Duration) {
	slices.Sort(times)
	return times[len(times)/2], times[len(times)-1]
}

// millis returns a time in milliseconds.
func millis(d time.Duration) string { return fmt.Sprintf("%.0f ms", d.Seconds()*1e3) }

// megabytes returns a number of bytes in units of 2^20.
func megabytes(bytes int64) string { return fmt.Sprintf("%.0f MB", float64(bytes)/(1<<20)) }
