package cost

import (
	"fmt"

	"github.com/gatewright/gatewright/shared/metering"
)

// item is a line of a month's bill.
type item struct {
	what, how string
	dollars   float64
}

func billTable(items []item) string {
	t := newTable("what", "how much", "$ a month")
	for _, i := range items {
		t.row(i.what, i.how, money(i.dollars))
	}
	t.row("**sum**", "", "**"+money(bill(items))+"**")
	return t.String()
}

func bill(items []item) (total float64) {
	for _, i := range items {
		total += i.dollars
	}
	return total
}

// idle is what an installation costs that nobody calls.
func idle(m measured) []item {
	schedules := m.resources["AWS::Scheduler::Schedule"]
	alarms, keys, boards := m.resources["AWS::CloudWatch::Alarm"], m.resources["AWS::KMS::Key"], m.resources["AWS::CloudWatch::Dashboard"]
	const sweeps, resets = hoursPerMonth * 60.0, hoursPerMonth * 1.0 // as they are scheduled
	calls := float64(tableKeyCalls * hoursPerMonth)
	const due, ended = 4 * 0.5, metering.DueShards * 0.5 // queries of an index, each half a unit
	return []item{
		{"alarms", fmt.Sprintf("%g × $%g", alarms, dollars(alarm, 1)), dollars(alarm, alarms)},
		{"dashboard", fmt.Sprintf("%g × $%g", boards, dollars(dashboard, 1)), dollars(dashboard, boards)},
		{"the KMS key", fmt.Sprintf("%g × $%g", keys, dollars(kmsKey, 1)), dollars(kmsKey, keys)},
		{
			"the sweep, each minute", fmt.Sprintf("%s calls of %g ms with %g MB, %g units read each", quantity(sweeps), float64(sweepMS), m.memoryMB["operations"], due),
			dollars(scheduleCall, sweeps) + dollars(lambdaRequest, sweeps) + lambdaTime(sweeps, sweepMS, m.memoryMB["operations"]) +
				dollars(readUnit, sweeps*due) + dollars(logIntake, sweeps*scheduleLog/1e9),
		},
		{
			"the look for quota periods that have ended, each hour", fmt.Sprintf("%s calls of %g ms with %g MB, %g units read each", quantity(resets), float64(resetMS), m.memoryMB["quotareset"], ended),
			dollars(scheduleCall, resets) + dollars(lambdaRequest, resets) + lambdaTime(resets, resetMS, m.memoryMB["quotareset"]) +
				dollars(readUnit, resets*ended) + dollars(logIntake, resets*scheduleLog/1e9),
		},
		{
			"the roll-up of what gateways have counted, each minute", fmt.Sprintf("%s calls of %g ms with %g MB, half a unit read each", quantity(sweeps), float64(rollupMS), m.memoryMB["rollup"]),
			dollars(scheduleCall, sweeps) + dollars(lambdaRequest, sweeps) + lambdaTime(sweeps, rollupMS, m.memoryMB["rollup"]) +
				dollars(readUnit, sweeps*0.5) + dollars(logIntake, sweeps*scheduleLog/1e9),
		},
		{"what tells that schedules are kept", fmt.Sprintf("%g metrics × $%g", schedules, dollars(metricMonth, 1)), dollars(metricMonth, schedules)},
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
	busyMerges   = 10 * 60 * hoursPerMonth // of a deployment's counts
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
	operations := float64(len(m.operations))
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
			"counting requests", fmt.Sprintf("a write for %d of them, and ten deployments rolled up each minute", callsAWrite),
			dollars(writeUnit, busyGateway/callsAWrite*writeUnits) + dollars(readUnit, busyGateway/callsAWrite*placeReads) + dollars(writeUnit, busyMerges*mergeWrites) + dollars(readUnit, busyMerges*mergeReads) +
				lambdaTime(busyMerges, mergeMS, m.memoryMB["rollup"]),
		},
		{
			"storage", fmt.Sprintf("%g GB in the table, with its backup; %g GB in the bucket", busyTableGB, busyBucketGB),
			dollars(tableStorage, busyTableGB) + dollars(tableBackup, busyTableGB) + dollars(objectStorage, busyBucketGB),
		},
		{"traces", fmt.Sprintf("%.1f a second of %.1f requests", sampled(perSecond), perSecond), dollars(trace, traces)},
		{"metrics of each operation", fmt.Sprintf("%g operations × %d", operations, operationMetrics), dollars(metricMonth, operations*operationMetrics)},
		{"answers to the internet", fmt.Sprintf("%g GB: %g KB each", traffic, busyAnswerKB), dollars(trafficOut, traffic)},
	}
	return append(items, item{"what an idle one costs", "the table above", bill(idle(m))})
}

// summaryTable is what the README tells.
func summaryTable(m measured, kinds []request) string {
	least, most := kinds[0].perMillion(), kinds[0].perMillion()
	for _, k := range kinds[:gatewayKinds] {
		least, most = min(least, k.perMillion()), max(most, k.perMillion())
	}
	t := newTable("what", "$")
	t.row("a million gateway requests", money(least)+" to "+money(most))
	for _, k := range kinds[gatewayKinds:] {
		if k.brief {
			t.row("a million times: "+k.name, money(k.perMillion()))
		}
	}
	t.row("an idle installation, a month", money(bill(idle(m))))
	t.row("a relay for tunnels beside it, a month", money(bill(serviceOf(m, "relay"))))
	t.row("a busy one, a month: 100 million gateway requests, 2 million to the management API", money(bill(busy(m, kinds))))
	return t.String()
}
