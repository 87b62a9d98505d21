package cost

import (
	"fmt"
	"math"
)

// gateways returns the items of the monthly bill of gateways as processes, as an installation with -c gateway=both runs
// them. The items include one capacity unit of the load balancer, which is enough for some requests.
func gateways(m measured) []item {
	return append(serviceItems(m, "gateway"), item{
		"the load balancer's capacity", fmt.Sprintf("1 × %d hours", hoursPerMonth), dollars(networkUnit, hoursPerMonth),
	})
}

// tier is the name of the price of each unit above the first from units of a month.
type tier struct {
	from  float64
	price string
}

// The tiers of the largest items on a busy gateway's bill.
var (
	restTiers = []tier{
		{0, restRequest},
		{333 * million, restTier2},
		{1000 * million, restTier3},
		{20_000 * million, restTier4},
	}
	logTiers = []tier{{0, logIntake}, {10_000, logTier2}, {30_000, logTier3}}
)

// tieredCost returns the cost of a monthly quantity. Each part of the quantity has the price of its tier.
func tieredCost(tiers []tier, quantity float64) (total float64) {
	for i, t := range tiers {
		end := math.Inf(1)
		if i+1 < len(tiers) {
			end = tiers[i+1].from
		}
		total += dollars(t.price, max(0, min(quantity, end)-t.from))
	}
	return total
}

// monthlyCost is the cost of a month of requests with the function or with processes: the total, and the parts that the
// document shows.
type monthlyCost struct {
	total, logs, traces float64
	tasks               float64
}

// functionCost returns the cost of a month with the function, at a mean rate of requests per second. It leaves out the
// table, because a process sends the same number of requests to the table. X-Ray records the traces that Lambda
// samples. Stages of API Gateway are not traced, and processes send no traces.
func functionCost(r requestKind, rate float64) monthlyCost {
	n := rate * secondsPerMonth
	out := monthlyCost{
		logs:   tieredCost(logTiers, n*gatewayLog/1e9) + dollars(logIntake, n*accessLog/1e9),
		traces: dollars(trace, sampled(rate)*secondsPerMonth),
	}
	out.total = tieredCost(restTiers, n) + dollars(lambdaRequest,
		n) + lambdaTime(n, r.ms, r.memoryMB) + out.logs + out.traces
	return out
}

// processCost returns the cost of a month with processes, at a mean rate of requests a second: enough tasks that the
// utilization of their processors is at most busyShare, and the traffic of the load balancer. Their logs do not have
// the lines that Lambda adds to the logs of the function.
func processCost(m measured, rate float64) monthlyCost {
	service := m.services["gateway"]
	n := rate * secondsPerMonth
	tasks := max(service.tasks, math.Ceil(rate*requestCPUus/million/(service.cpuUnits/1024*busyShare)))
	// One capacity unit of the load balancer is enough for 800 new connections per second, and for 1 GB per hour.
	units := max(1, rate/requestsPerConnection/800, rate*3600*requestKB/1e6)
	out := monthlyCost{logs: dollars(logIntake, n*(gatewayLog-platformLog)/1e9), tasks: tasks}
	additional := tasks - service.tasks
	out.total = billTotal(gateways(m)) + dollars(networkUnit, (units-1)*hoursPerMonth) + dollars(zoneTraffic,
		n*requestKB/1e6*otherZone) + out.logs +
		dollars(processorHour, additional*hoursPerMonth*service.cpuUnits/1024) + dollars(memoryHour,
		additional*hoursPerMonth*service.memoryMB/1024) + dollars(addressHour, additional*hoursPerMonth)
	return out
}

// functionPerMillion returns the cost of a million requests with the function, in the first tier and without traces.
func functionPerMillion(r requestKind) float64 {
	return dollars(restRequest, million) + dollars(lambdaRequest, million) + lambdaTime(million, r.ms, r.memoryMB) +
		dollars(logIntake, (gatewayLog+accessLog)*million/1e9)
}

func containerTable(m measured, kinds []requestKind) string {
	t := newTable("requests a second, on average", "millions a month", "Lambda", "of it X-Ray", "of it logs", "processes",
		"how many", "of it logs")
	for _, rate := range []float64{1, 2, 5, 10, 100, 1000, 10_000} {
		f, p := functionCost(kinds[0], rate), processCost(m, rate)
		t.row(quantity(rate), formatDollars(rate*secondsPerMonth/million), formatDollars(f.total), formatDollars(f.traces),
			formatDollars(f.logs), formatDollars(p.total), formatNumber(p.tasks), formatDollars(p.logs))
	}
	return t.String()
}

// breakEven returns the mean rate of requests per second above which processes cost less than Lambda. It is at most
// 1000.
func breakEven(m measured, r requestKind) float64 {
	low, high := 0.0, 1000.0
	for range 60 {
		middle := (low + high) / 2
		if functionCost(r, middle).total < processCost(m, middle).total {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

func breakEvenTable(m measured) string {
	t := newTable("an upstream answers in", "a million in Lambda", "processes are cheaper from")
	for _, ms := range []float64{10, upstreamMS, 200, 1000} {
		r := requestKind{ms: ms + gatewayMS, memoryMB: m.memoryMB["gateway"]}
		t.row(formatNumber(ms)+" ms", "$"+formatDollars(functionPerMillion(r)), fmt.Sprintf("%.1f a second", breakEven(m, r)))
	}
	return t.String()
}
