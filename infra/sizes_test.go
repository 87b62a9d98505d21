package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/testing/golden"
)

// size is a row of the table of sizes: a value of the installation, and the quota of AWS (0 for none).
type size struct {
	name         string
	value, quota float64
	unit         string // the last column: the price per month or a duration, or ""
}

// These are list prices per month in us-east-1. TestSizePricesMatchTheCosts compares them with docs/cost.md.
const (
	alarmPrice  = 0.1
	metricPrice = 0.3
)

// sizesOf returns the sizes of an installation that have quotas in AWS or a price. The quotas of CloudFormation and IAM
// cannot be raised.
func sizesOf(t *testing.T, a assembly, specs []functionSpec) []size {
	t.Helper()
	resources, outputs, parameters, bytes, total := 0, 0, 0, 0, 0
	for name, stack := range a.stacks {
		resources, outputs, parameters = max(resources, len(stack.Resources)), max(outputs, len(stack.Outputs)),
			max(parameters, len(stack.Parameters))
		bytes, total = max(bytes, len(compactJSON(t, a.raw[name]))), total+len(stack.Resources)
	}
	role, permissionBytes := 0, map[string]int{}
	for _, n := range policySizes(t, a) {
		role = max(role, n)
	}
	for _, p := range a.all("AWS::Lambda::Permission") {
		permissionBytes[render(p.Properties["FunctionName"])] += 400 // about the size of a statement with the ARN of an API
	}
	maxPermissionBytes := 0
	for _, n := range permissionBytes {
		maxPermissionBytes = max(maxPermissionBytes, n)
	}
	operations := 0
	for _, f := range specs {
		operations += len(f.routes)
	}
	metrics := map[string]bool{}
	for _, alarm := range a.all("AWS::CloudWatch::Alarm") {
		if name := fmt.Sprint(alarm.Properties["Namespace"]); name == "Gatewright" {
			metrics[fmt.Sprint(alarm.Properties["MetricName"])] = true
		}
	}
	const operationMetrics = 4 // latency, errors, read units and write units
	count := func(kind string) (n float64) {
		for _, stack := range a.stacks { // resources of different services have the same logical ids
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
		{
			"calls of API Gateway's control plane by a first deployment", a.controlCalls(), 0,
			fmt.Sprintf("%.0f s at 10 a second", a.controlCalls()/10),
		},
		{"functions", count("AWS::Lambda::Function"), 0, ""},
		{
			"calls at once that they reserve, of 1,000", float64(1000 - settingsFor(t, minimalContext(nil)).unreserved(specs)),
			900, "",
		},
		{"characters of a role's policies", float64(role), 10_240, ""},
		{"characters of a function's policy", float64(maxPermissionBytes), 20_480, ""},
		{"alarms", count("AWS::CloudWatch::Alarm"), 5000, fmt.Sprintf("$%.2f a month", alarmPrice*float64(a.alarmMetrics()))},
		{"log groups", count("AWS::Logs::LogGroup"), 1_000_000, ""},
		{
			"metrics, if all operations are used", float64(operations*operationMetrics + len(metrics)), 0,
			fmt.Sprintf("$%.2f a month", metricPrice*float64(operations*operationMetrics+len(metrics))),
		},
	}
}

// controlCalls returns the minimum number of calls to API Gateway's control plane that create the APIs. A method needs
// three calls: PutMethod, PutIntegration, and GetMethod, with which CloudFormation checks whether the method exists.
// Any other resource needs two.
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

// compactJSON returns a template without white space. The CDK uploads at most this size.
func compactJSON(t *testing.T, raw []byte) []byte {
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

// sizeTable matches the table of sizes in docs/scaling.md, between two comments of the page. Its groups are these
// comments.
var sizeTable = regexp.MustCompile(`(?s)(<!-- table: sizes -->\n).*?(<!-- end of the table -->)`)

// compareSizes checks that the sizes of the grown installation a are below the quotas. It compares the table in
// docs/scaling.md with the current and the grown sizes.
func compareSizes(t *testing.T, a assembly, specs []functionSpec) {
	t.Helper()
	settings := settingsFor(t, servicesContext(nil))
	today, grown := sizesOf(t, synthesize(t, servicesContext(nil)), functionSpecs(settings)), sizesOf(t, a, specs)
	lines := []string{"| what | today | grown | AWS takes | price when grown |", "|---|--:|--:|--:|--:|"}
	for i, s := range grown {
		quota := "as many"
		if s.quota > 0 {
			quota = fmt.Sprint(int(s.quota))
			if s.value >= s.quota {
				t.Errorf("%s = %v, want less than %v, the limit of AWS", s.name, s.value, s.quota)
			}
		}
		lines = append(lines, fmt.Sprintf("| %s | %v | %v | %s | %s |", s.name, today[i].value, s.value, quota, s.unit))
	}
	t.Log("\n" + strings.Join(lines, "\n"))
	const path = "../docs/scaling.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(sizeTable.FindAllString(string(text), -1)); n != 1 {
		t.Fatalf("%s has %d places for the table of sizes, want 1", path, n)
	}
	golden.Equal(t, path, sizeTable.ReplaceAllStringFunc(string(text), func(old string) string {
		parts := sizeTable.FindStringSubmatch(old)
		return parts[1] + "\n" + strings.Join(lines, "\n") + "\n\n" + parts[2]
	}))
}

// TestSizePricesMatchTheCosts compares alarmPrice and metricPrice with the prices in docs/cost.md.
func TestSizePricesMatchTheCosts(t *testing.T) {
	text, err := os.ReadFile("../docs/cost.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(string(text), "\n")
	for item, dollars := range map[string]float64{
		"an alarm, for each metric":      alarmPrice,
		"a metric beyond the basic ones": metricPrice,
	} {
		want := fmt.Sprintf("| CloudWatch: %s | %v | 1 ", item, dollars)
		if !slices.ContainsFunc(rows, func(row string) bool { return strings.HasPrefix(row, want) }) {
			t.Errorf("docs/cost.md has no row that begins with %q, want one", want)
		}
	}
}
