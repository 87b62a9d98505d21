package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/golden"
)

// size is a row of the table of sizes: what there is at most, and what AWS takes.
type size struct {
	what      string
	has, most float64
	unit      string
}

// List prices a month of us-east-1, as in docs/cost.md, which a test compares with these.
const (
	alarmPrice  = 0.1
	metricPrice = 0.3
)

// sizesOf measures an installation against the quotas of AWS. Those of CloudFormation and IAM cannot be raised.
func sizesOf(t *testing.T, a assembly, fs []declared) []size {
	t.Helper()
	resources, outputs, parameters, bytes, total := 0, 0, 0, 0, 0
	for name, stack := range a.stacks {
		resources, outputs, parameters = max(resources, len(stack.Resources)), max(outputs, len(stack.Outputs)), max(parameters, len(stack.Parameters))
		bytes, total = max(bytes, len(compacted(t, a.raw[name]))), total+len(stack.Resources)
	}
	role, called := 0, map[string]int{}
	for _, n := range policySizes(t, a) {
		role = max(role, n)
	}
	for _, p := range a.all("AWS::Lambda::Permission") {
		called[render(p.Properties["FunctionName"])] += 400 // a statement with the ARN of an API
	}
	calledMost := 0
	for _, n := range called {
		calledMost = max(calledMost, n)
	}
	operations := 0
	for _, f := range fs {
		operations += len(f.routes)
	}
	metrics := map[string]bool{}
	for _, alarm := range a.all("AWS::CloudWatch::Alarm") {
		if name := fmt.Sprint(alarm.Properties["Namespace"]); name == "Gatewright" {
			metrics[fmt.Sprint(alarm.Properties["MetricName"])] = true
		}
	}
	const operationMetrics = 4 // latency, errors, units read and written
	count := func(kind string) (n float64) {
		for _, stack := range a.stacks { // services' resources have the same names
			for _, r := range stack.Resources {
				if r.Type == kind {
					n++
				}
			}
		}
		return n
	}
	return []size{
		{"stacks", float64(len(a.stacks)), 2000, ""},
		{"resources in all of them", float64(total), 0, ""},
		{"resources of the largest", float64(resources), 500, ""},
		{"outputs of the one with most", float64(outputs), 200, ""},
		{"parameters of the one with most", float64(parameters), 200, ""},
		{"characters of the largest template", float64(bytes), 1_000_000, ""},
		{"resources of an API", count("AWS::ApiGateway::Resource"), 300, ""},
		{"calls of API Gateway's control plane by a first deployment", a.controlCalls(), 0, fmt.Sprintf("%.0f s at 10 a second", a.controlCalls()/10)},
		{"functions", count("AWS::Lambda::Function"), 0, ""},
		{"calls at once that they reserve, of 1,000", float64(1000 - settingsFor(t, needed(nil)).unreserved(fs)), 900, ""},
		{"characters of a role's policies", float64(role), 10_240, ""},
		{"characters of a function's policy", float64(calledMost), 20_480, ""},
		{"alarms", count("AWS::CloudWatch::Alarm"), 5000, fmt.Sprintf("$%.2f a month", alarmPrice*float64(a.alarmMetrics()))},
		{"log groups", count("AWS::Logs::LogGroup"), 1_000_000, ""},
		{"metrics, if all operations are used", float64(operations*operationMetrics + len(metrics)), 0, fmt.Sprintf("$%.2f a month", metricPrice*float64(operations*operationMetrics+len(metrics)))},
	}
}

// controlCalls returns how many calls of API Gateway's control plane the creation of the APIs needs at least: three for each method (PutMethod,
// PutIntegration, and GetMethod, by which CloudFormation finds out whether there is one), and two for each other part.
func (a assembly) controlCalls() (n float64) {
	for _, s := range a.stacks {
		for _, r := range s.Resources {
			switch {
			case r.Type == "AWS::ApiGateway::Method":
				n += 3
			case strings.HasPrefix(r.Type, "AWS::ApiGateway::"):
				n += 2
			}
		}
	}
	return n
}

// compacted is a template without white space, as the CDK uploads it at the most.
func compacted(t *testing.T, raw []byte) []byte {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var sizeTable = regexp.MustCompile(`(?s)(<!-- table: sizes -->\n).*?(<!-- end of the table -->)`)

// compareSizes holds the grown installation to the quotas, and writes the table of docs/scaling.md: today's beside the grown one's.
func compareSizes(t *testing.T, a assembly, fs []declared) {
	t.Helper()
	now := settingsFor(t, serving(nil))
	today, grown := sizesOf(t, synthesise(t, serving(nil)), declaredFunctions(now)), sizesOf(t, a, fs)
	lines := []string{"| what | today | grown | AWS takes | price when grown |", "|---|--:|--:|--:|--:|"}
	for i, s := range grown {
		most := "as many"
		if s.most > 0 {
			most = fmt.Sprint(int(s.most))
			if s.has >= s.most {
				t.Errorf("%s: %v, AWS takes %v", s.what, s.has, s.most)
			}
		}
		lines = append(lines, fmt.Sprintf("| %s | %v | %v | %s | %s |", s.what, today[i].has, s.has, most, s.unit))
	}
	t.Log("\n" + strings.Join(lines, "\n"))
	const path = "../docs/scaling.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(sizeTable.FindAllString(string(text), -1)); n != 1 {
		t.Fatalf("%s has %d places for the table of sizes", path, n)
	}
	golden.Equal(t, path, sizeTable.ReplaceAllStringFunc(string(text), func(old string) string {
		parts := sizeTable.FindStringSubmatch(old)
		return parts[1] + "\n" + strings.Join(lines, "\n") + "\n\n" + parts[2]
	}))
}

// TestPricesOfSizesAreThoseOfTheCosts: they stand in two places.
func TestPricesOfSizesAreThoseOfTheCosts(t *testing.T) {
	text, err := os.ReadFile("../docs/cost.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(string(text), "\n")
	for what, dollars := range map[string]float64{"an alarm, for each metric": alarmPrice, "a metric beyond the basic ones": metricPrice} {
		want := fmt.Sprintf("| CloudWatch: %s | %v | 1 ", what, dollars)
		if !slices.ContainsFunc(rows, func(row string) bool { return strings.HasPrefix(row, want) }) {
			t.Errorf("docs/cost.md has no row %q", want)
		}
	}
}
