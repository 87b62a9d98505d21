package cost

import "fmt"

// item is a line of a month's bill.
type item struct {
	name, quantity string
	dollars        float64
}

func billTable(items []item) string {
	t := newTable("what", "how much", "$ a month")
	for _, i := range items {
		t.row(i.name, i.quantity, formatDollars(i.dollars))
	}
	t.row("**sum**", "", "**"+formatDollars(billTotal(items))+"**")
	return t.String()
}

// billTotal returns the sum of the items.
func billTotal(items []item) (total float64) {
	for _, i := range items {
		total += i.dollars
	}
	return total
}

// idle returns the items of the monthly bill of an installation without clients, in its first year.
func idle(m measured) []item {
	alarms, keys, boards := m.resources["AWS::CloudWatch::Alarm"], m.resources["AWS::KMS::Key"],
		m.resources["AWS::CloudWatch::Dashboard"]
	tableCalls := float64(tableKeyCalls * hoursPerMonth)
	items := []item{
		{"alarms", fmt.Sprintf("%g × $%g", alarms, dollars(alarm, 1)), dollars(alarm, alarms)},
		{"dashboard", fmt.Sprintf("%g × $%g", boards, dollars(dashboard, 1)), dollars(dashboard, boards)},
		{"the KMS key, in its first year", fmt.Sprintf("%g × $%g", keys, dollars(kmsKey, 1)), dollars(kmsKey, keys)},
	}
	var calls float64
	for _, s := range m.schedules {
		calls += s.calls
		items = append(items, s.item(m.memoryMB[s.function]))
	}
	schedules := float64(len(m.schedules))
	return append(
		items,
		item{
			"metrics that count the calls of schedules", fmt.Sprintf("%g × $%g", schedules, dollars(metricMonth, 1)),
			dollars(metricMonth, schedules),
		},
		// Lambda samples the traces of each function separately.
		item{
			"traces of the calls of schedules", quantity(calls) + ": each is the first call of its function in a second",
			dollars(trace, calls),
		},
		item{"DynamoDB's calls to the table's key", quantity(tableCalls), dollars(kmsRequest, tableCalls)},
	)
}

// billedRotations is the number of rotations of a KMS key that increase its cost. KMS rotates the key once a year.
const billedRotations = 2

// idleTable returns the table of the monthly bill of an idle installation in its first year, with the sums in later
// years.
func idleTable(m measured) string {
	out := billTable(idle(m))
	for rotations := 1; rotations <= billedRotations; rotations++ {
		year := "in the second year"
		if rotations == billedRotations {
			year = "from the third year on"
		}
		additional := m.resources["AWS::KMS::Key"] * float64(rotations)
		out += fmt.Sprintf("| **sum %s** | KMS has rotated the key: $%s more | **%s** |\n", year,
			formatNumber(dollars(kmsRotation, additional)), formatDollars(billTotal(idle(m))+dollars(kmsRotation, additional)))
	}
	return out
}

// The requests of the busy installation.
const (
	busyGateway  = 100 * million // requests
	busyUnknown  = 0.1           // the part with a key that is not cached
	busyLimited  = 0.4           // the part with a strict limit
	busyReads    = 1.6 * million // management requests that read
	busyChanges  = 0.4 * million
	busyBuilds   = 1000
	busyMerges   = 10 * 60 * hoursPerMonth // the roll-up merges the counts of ten deployments each minute
	busyTableGB  = 3.0
	busyBucketGB = 1.0
	busyAnswerKB = 2.0 // a response of the gateway
)

// busy returns the items of the monthly bill of a busy installation. kinds is a result of requestKinds.
func busy(m measured, kinds []requestKind) []item {
	known, unknown, limited, read, change := kinds[0], kinds[1], kinds[2], kinds[3], kinds[6]
	requestsItem := func(name string, r requestKind, requests float64) item {
		return item{
			name, fmt.Sprintf("%s at $%s a million", quantity(requests), formatDollars(r.perMillion())),
			r.perMillion() * requests / million,
		}
	}
	perSecond := (busyGateway + busyReads + busyChanges) / secondsPerMonth
	traces := sampled(perSecond) * secondsPerMonth
	operations := float64(len(m.operations))
	traffic := busyGateway * busyAnswerKB / 1e6
	items := []item{
		requestsItem("gateway, keys that are known", known, busyGateway*(1-busyUnknown-busyLimited)),
		requestsItem("gateway, keys looked up", unknown, busyGateway*busyUnknown),
		requestsItem("gateway, strict limits", limited, busyGateway*busyLimited),
		requestsItem("management, reading", read, busyReads),
		requestsItem("management, changing", change, busyChanges),
		{
			"builds", fmt.Sprintf("%s of %g s with %g MB", quantity(busyBuilds), buildMS/1000.0, m.memoryMB["builder"]),
			lambdaTime(busyBuilds, buildMS, m.memoryMB["builder"]) + dollars(lambdaRequest, busyBuilds) +
				dollars(readUnit, busyBuilds*buildReads) + dollars(writeUnit, busyBuilds*buildWrites) +
				dollars(objectPut, busyBuilds*buildPuts) + dollars(objectGet, busyBuilds*buildGets),
		},
		{
			"counting requests", fmt.Sprintf("a write for %d of them, and ten deployments rolled up each minute", callsPerWrite),
			dollars(writeUnit, busyGateway/callsPerWrite*rowWrites) + dollars(readUnit,
				busyGateway/callsPerWrite*rowReads) + dollars(writeUnit, busyMerges*mergeWrites) + dollars(readUnit,
				busyMerges*mergeReads) +
				lambdaTime(busyMerges, mergeMS, m.memoryMB["rollup"]),
		},
		{
			"storage", fmt.Sprintf("%g GB in the table, with its backup; %g GB in the bucket", busyTableGB, busyBucketGB),
			dollars(tableStorage, busyTableGB) + dollars(tableBackup, busyTableGB) + dollars(objectStorage, busyBucketGB),
		},
		{"traces", fmt.Sprintf("%.1f a second of %.1f requests", sampled(perSecond), perSecond), dollars(trace, traces)},
		{
			"metrics of each operation", fmt.Sprintf("%g operations × %d", operations, operationMetrics),
			dollars(metricMonth, operations*operationMetrics),
		},
		{"answers to the internet", fmt.Sprintf("%g GB: %g KB each", traffic, busyAnswerKB), dollars(trafficOut, traffic)},
	}
	return append(items, item{"what an idle one costs", "the table above", billTotal(idle(m))})
}

// summaryTable returns the table in the README.
func summaryTable(m measured, kinds []requestKind) string {
	minimum, maximum := kinds[0].perMillion(), kinds[0].perMillion()
	for _, k := range kinds[:gatewayKinds] {
		minimum, maximum = min(minimum, k.perMillion()), max(maximum, k.perMillion())
	}
	t := newTable("what", "$")
	t.row("a million gateway requests", formatDollars(minimum)+" to "+formatDollars(maximum))
	for _, k := range kinds[gatewayKinds:] {
		if k.summarized {
			t.row("a million times: "+k.name, formatDollars(k.perMillion()))
		}
	}
	t.row("an idle installation, a month of its first year", formatDollars(billTotal(idle(m))))
	t.row("a relay for tunnels beside it, a month", formatDollars(billTotal(serviceItems(m, "relay"))))
	t.row("a busy one, a month: 100 million gateway requests, 2 million to the management API",
		formatDollars(billTotal(busy(m, kinds))))
	return t.String()
}
