package cost

import "fmt"

// gateways is what gateways as processes cost a month, as an installation with
// -c gateway=both has them, with one unit of the load balancer's capacity: whatever
// they serve within it.
func gateways(m measured) []item {
	return append(serviceOf(m, "gateway"), item{
		"the load balancer's capacity", fmt.Sprintf("1 × %d hours", hoursPerMonth), dollars(networkUnit, hoursPerMonth),
	})
}

// functionPerMillion is what of a million requests only a Lambda costs: the
// table is asked, and our line is written, from a process too.
func functionPerMillion(r request) float64 {
	return dollars(restRequest, million) + dollars(lambdaRequest, million) + lambdaTime(million, r.ms, r.memoryMB) +
		dollars(logIntake, platformLog*million/1e9)
}

func containerTable(m measured, kinds []request) string {
	t := newTable("requests a second, on average", "millions a month", "Lambda", "two processes")
	for _, rate := range []float64{1, 2, 5, 10, 20, 50, 100} {
		millions := rate * secondsPerMonth / million
		t.row(short(rate), money(millions), money(functionPerMillion(kinds[0])*millions), money(bill(gateways(m))))
	}
	return t.String()
}

// breakEven is the mean rate of requests, a second, from which processes are
// cheaper than Lambda.
func breakEven(m measured, r request) float64 {
	return bill(gateways(m)) / functionPerMillion(r) * million / secondsPerMonth
}

func breakEvenTable(m measured) string {
	t := newTable("an upstream answers in", "a million in Lambda", "two processes are cheaper from")
	for _, ms := range []float64{10, upstreamMS, 200, 1000} {
		r := request{ms: ms + gatewayMS, memoryMB: m.memoryMB["gateway"]}
		t.row(short(ms)+" ms", "$"+money(functionPerMillion(r)), fmt.Sprintf("%.1f a second", breakEven(m, r)))
	}
	return t.String()
}
