package cost

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// tables gives the document's tables by name, as Markdown. Its error names a
// row of a ledger that is gone.
func tables(m measured) (map[string]string, error) {
	kinds, err := requests(m)
	if err != nil {
		return nil, err
	}
	return map[string]string{
		"prices":       priceTable(),
		"requests":     requestTable(kinds),
		"idle":         billTable(idle(m)),
		"busy":         billTable(busy(m, kinds)),
		"containers":   containerTable(kinds),
		"layouts":      layoutTable(),
		"slow answers": breakEvenTable(m),
	}, nil
}

// request is a kind of request; all figures are of one.
type request struct {
	name string
	units
	ms, memoryMB, logBytes float64
}

// parts are what a million of a kind costs, in the columns' order.
func (r request) parts() []float64 {
	return []float64{
		dollars(restRequest, million),
		dollars(lambdaRequest, million) + lambdaTime(million, r.ms, r.memoryMB),
		dollars(readUnit, r.reads*million),
		dollars(writeUnit, r.writes*million),
		dollars(logIntake, r.logBytes*million/1e9),
	}
}

// perMillion is what a million of a kind costs.
func (r request) perMillion() float64 { return sum(r.parts()) }

// requests gives the kinds of requests, the gateway's first.
func requests(m measured) ([]request, error) {
	var missing []string
	look := func(ledger map[string]units, row string) units {
		u, ok := ledger[row]
		if !ok {
			missing = append(missing, row)
		}
		return u
	}
	check := look(m.keys, "check a key")
	served := units{deploymentReads, 0}
	gateway := func(name string, more units) request {
		return request{
			name:  "gateway: " + name,
			units: units{served.reads + more.reads, more.writes}, ms: upstreamMS + gatewayMS,
			memoryMB: m.memoryMB["gateway"], logBytes: gatewayLog,
		}
	}
	managed := func(ledger map[string]units, row, name string, ms float64) request {
		return request{name, look(ledger, row), ms, m.memoryMB["consumers"], managementLog}
	}
	out := []request{
		gateway("no key, or one that the process knows", units{}),
		gateway("a key that it has to look up", check),
		// A lease is one read and one write of one item, in a transaction.
		gateway("a known key, and a strict limit", units{1.0 / admittedPerWrite, 2.0 / admittedPerWrite}),
		managed(m.operations, "ApiKeyConsumersService_read", "read a consumer", readMS),
		managed(m.keys, "list 100 consumers", "list 100 consumers", readMS),
		managed(m.operations, "V1_deploymentStatus", "ask how a build goes", readMS),
		managed(m.operations, "ApiKeyConsumersService_create", "create a consumer", changeMS),
		managed(m.keys, "create a consumer with a key, 5 tags and a manager", "create a consumer with a key, 5 tags and a manager", changeMS),
		managed(m.operations, "ApiKeyKeysService_create", "create a key", changeMS),
		managed(m.operations, "ApiKeyConsumersService_rollKey", "roll a key", changeMS),
		managed(m.keys, "create 40 keys", "create 40 keys at once", changeMS),
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("the ledgers have no rows named %s", strings.Join(missing, ", "))
	}
	if out[0].memoryMB == 0 || out[3].memoryMB == 0 {
		return nil, fmt.Errorf("%s tells no memory of the functions gateway and consumers", templateSummary)
	}
	return out, nil
}

func priceTable() string {
	t := newTable("what", "$", "for")
	for _, p := range prices() {
		amount := strconv.FormatFloat(p.dollars, 'f', -1, 64)
		t.row(p.what, amount, quantity(p.per)+" "+p.unit)
	}
	return t.String()
}

func requestTable(kinds []request) string {
	t := newTable("a million of", "units read", "units written", "ms", "API Gateway", "Lambda", "reads", "writes", "logs", "**$**")
	for _, r := range kinds {
		cells := []string{r.name, short(r.reads), short(r.writes), short(r.ms)}
		for _, part := range r.parts() {
			cells = append(cells, money(part))
		}
		t.row(append(cells, "**"+money(r.perMillion())+"**")...)
	}
	return t.String()
}

// item is a line of a month's bill.
type item struct {
	what, how string
	dollars   float64
}

func billTable(items []item) string {
	t := newTable("what", "how much", "$ a month")
	total := 0.0
	for _, i := range items {
		t.row(i.what, i.how, money(i.dollars))
		total += i.dollars
	}
	t.row("**sum**", "", "**"+money(total)+"**")
	return t.String()
}

// idle is what an installation costs that nobody calls.
func idle(m measured) []item {
	alarms, keys, boards := m.resources["AWS::CloudWatch::Alarm"], m.resources["AWS::KMS::Key"], m.resources["AWS::CloudWatch::Dashboard"]
	sweeps := m.resources["AWS::Scheduler::Schedule"] * hoursPerMonth * 60
	calls := float64(tableKeyCalls * hoursPerMonth)
	const due = 4 * 0.5 // four queries of an index, each half a unit
	return []item{
		{"alarms", fmt.Sprintf("%g × $%g", alarms, dollars(alarm, 1)), dollars(alarm, alarms)},
		{"dashboard", fmt.Sprintf("%g × $%g", boards, dollars(dashboard, 1)), dollars(dashboard, boards)},
		{"the KMS key", fmt.Sprintf("%g × $%g", keys, dollars(kmsKey, 1)), dollars(kmsKey, keys)},
		{
			"the sweep, each minute", fmt.Sprintf("%s calls of %g ms with %g MB, %g units read each", quantity(sweeps), float64(sweepMS), m.memoryMB["operations"], due),
			dollars(scheduleCall, sweeps) + dollars(lambdaRequest, sweeps) + lambdaTime(sweeps, sweepMS, m.memoryMB["operations"]) +
				dollars(readUnit, sweeps*due) + dollars(logIntake, sweeps*gatewayLog/1e9),
		},
		{"its traces", quantity(sweeps) + ", all of them: they are the first of their second", dollars(trace, sweeps)},
		{"DynamoDB's calls to the table's key", quantity(calls), dollars(kmsRequest, calls)},
	}
}

// The busy installation.
const (
	busyGateway  = 100 * million // requests
	busyUnknown  = 0.1           // of them with a key that has to be looked up
	busyLimited  = 0.4           // of them with a strict limit
	busyReads    = 1.6 * million // management requests that read
	busyChanges  = 0.4 * million
	busyBuilds   = 1000
	busyTableGB  = 3.0
	busyBucketGB = 1.0
	busyAnswerKB = 2.0
)

// busy is what an installation costs that is used.
func busy(m measured, kinds []request) []item {
	known, unknown, limited, read, change := kinds[0], kinds[1], kinds[2], kinds[3], kinds[6]
	mix := func(name string, r request, requests float64) item {
		return item{name, fmt.Sprintf("%s at $%s a million", quantity(requests), money(r.perMillion())), r.perMillion() * requests / million}
	}
	perSecond := (busyGateway + busyReads + busyChanges) / secondsPerMonth
	traces := sampled(perSecond) * secondsPerMonth
	metrics := m.methods * methodMetrics
	traffic := busyGateway * busyAnswerKB / 1e6
	items := []item{
		mix("gateway, keys that are known", known, busyGateway*(1-busyUnknown-busyLimited)),
		mix("gateway, keys looked up", unknown, busyGateway*busyUnknown),
		mix("gateway, strict limits", limited, busyGateway*busyLimited),
		mix("management, reading", read, busyReads),
		mix("management, changing", change, busyChanges),
		{
			"builds", fmt.Sprintf("%s of %g s with %g MB", quantity(busyBuilds), buildMS/1000.0, m.memoryMB["builder"]),
			lambdaTime(busyBuilds, buildMS, m.memoryMB["builder"]) + dollars(lambdaRequest, busyBuilds) +
				dollars(readUnit, busyBuilds*buildReads) + dollars(writeUnit, busyBuilds*buildWrites) +
				dollars(objectPut, busyBuilds*buildPuts) + dollars(objectGet, busyBuilds*buildGets),
		},
		{
			"storage", fmt.Sprintf("%g GB in the table, with its backup; %g GB in the bucket", busyTableGB, busyBucketGB),
			dollars(tableStorage, busyTableGB) + dollars(tableBackup, busyTableGB) + dollars(objectStorage, busyBucketGB),
		},
		{"traces", fmt.Sprintf("%.1f a second of %.1f requests", sampled(perSecond), perSecond), dollars(trace, traces)},
		{"metrics of each method", fmt.Sprintf("%g methods × %d", m.methods, methodMetrics), dollars(metricMonth, metrics)},
		{"answers to the internet", fmt.Sprintf("%g GB: %g KB each", traffic, busyAnswerKB), dollars(trafficOut, traffic)},
	}
	total := 0.0
	for _, i := range idle(m) {
		total += i.dollars
	}
	return append(items, item{"what an idle one costs", "the table above", total})
}

// layout is a way to run the gateway in containers.
type layout struct {
	name, why                          string
	tasks, processors, memoryGB        float64
	addresses, translators, loadsUnits float64
}

func layouts() []layout {
	return []layout{
		{"small", "two tasks with public addresses", 2, 0.25, 0.5, 4, 0, 1},
		{"private", "two tasks in private networks, a NAT gateway in each of two zones", 2, 1, 2, 4, 2, 1},
	}
}

// monthly is what a layout costs, whatever it serves within its capacity.
func (l layout) monthly() float64 {
	return sum([]float64{
		dollars(processorHour, l.tasks*l.processors*hoursPerMonth), dollars(memoryHour, l.tasks*l.memoryGB*hoursPerMonth),
		dollars(balancerHour, hoursPerMonth), dollars(balancerUnit, l.loadsUnits*hoursPerMonth),
		dollars(addressHour, l.addresses*hoursPerMonth), dollars(translatorHour, l.translators*hoursPerMonth),
	})
}

func layoutTable() string {
	t := newTable("layout", "tasks", "load balancer, 1 LCU", "IPv4 addresses", "NAT gateways", "$ a month")
	for _, l := range layouts() {
		tasks := dollars(processorHour, l.tasks*l.processors*hoursPerMonth) + dollars(memoryHour, l.tasks*l.memoryGB*hoursPerMonth)
		t.row(l.name+": "+l.why, fmt.Sprintf("%g × %g vCPU, %g GB: %s", l.tasks, l.processors, l.memoryGB, money(tasks)),
			money(dollars(balancerHour, hoursPerMonth)+dollars(balancerUnit, l.loadsUnits*hoursPerMonth)),
			fmt.Sprintf("%g: %s", l.addresses, money(dollars(addressHour, l.addresses*hoursPerMonth))),
			fmt.Sprintf("%g: %s", l.translators, money(dollars(translatorHour, l.translators*hoursPerMonth))),
			"**"+money(l.monthly())+"**")
	}
	return t.String()
}

// functionPerMillion is what of a request only a Lambda costs: the table is
// asked, and a line may be written, from a container too.
func functionPerMillion(r request) float64 {
	return r.perMillion() - dollars(readUnit, r.reads*million) - dollars(writeUnit, r.writes*million)
}

func containerTable(kinds []request) string {
	t := newTable("requests a second, on average", "millions a month", "Lambda", "small", "private")
	for _, rate := range []float64{1, 2, 5, 10, 20, 50, 100} {
		millions := rate * secondsPerMonth / million
		cells := []string{short(rate), money(millions), money(functionPerMillion(kinds[0]) * millions)}
		for _, l := range layouts() {
			cells = append(cells, money(l.monthly()))
		}
		t.row(cells...)
	}
	return t.String()
}

// breakEven is the mean rate of requests, a second, from which a layout is
// cheaper than Lambda.
func breakEven(l layout, r request) float64 {
	return l.monthly() / functionPerMillion(r) * million / secondsPerMonth
}

func breakEvenTable(m measured) string {
	t := newTable("an upstream answers in", "a million in Lambda", "small is cheaper from", "private is cheaper from")
	for _, ms := range []float64{10, upstreamMS, 200, 1000} {
		r := request{ms: ms + gatewayMS, memoryMB: m.memoryMB["gateway"], logBytes: gatewayLog}
		cells := []string{short(ms) + " ms", "$" + money(functionPerMillion(r))}
		for _, l := range layouts() {
			cells = append(cells, fmt.Sprintf("%.1f a second", breakEven(l, r)))
		}
		t.row(cells...)
	}
	return t.String()
}

// table is a Markdown table, the first column aligned to the left.
type table struct{ lines []string }

func newTable(columns ...string) *table {
	t := &table{}
	t.row(columns...)
	t.lines = append(t.lines, "|---|"+strings.Repeat("--:|", len(columns)-1))
	return t
}

func (t *table) row(cells ...string) { t.lines = append(t.lines, "| "+strings.Join(cells, " | ")+" |") }

// String gives the table as it stands in the document.
func (t *table) String() string { return strings.Join(t.lines, "\n") + "\n" }

func sum(parts []float64) (total float64) {
	for _, p := range parts {
		total += p
	}
	return total
}

// money is an amount to the cent.
func money(amount float64) string { return strconv.FormatFloat(amount, 'f', 2, 64) }

// short is a figure without zeros at its end.
func short(n float64) string { return strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64) }

// quantity is a large figure that can be read.
func quantity(n float64) string {
	switch {
	case n >= million:
		return short(n/million) + " million"
	case n < 10_000:
		return short(n)
	}
	return fmt.Sprintf("%d,%03d", int(n)/1000, int(n)%1000)
}
