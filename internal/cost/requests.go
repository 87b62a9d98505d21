package cost

import (
	"fmt"
	"strings"
)

// requestKind describes a kind of request. All values are for one request.
type requestKind struct {
	name string
	units
	ms, memoryMB, logBytes float64
	summarized             bool // whether summaryTable has a line for this kind of management request
}

// gatewayKinds is the number of kinds that are requests to the gateway.
const gatewayKinds = 3

// parts returns the costs of a million requests: API Gateway, Lambda, reads, writes and logs.
func (r requestKind) parts() []float64 {
	return []float64{
		dollars(restRequest, million),
		dollars(lambdaRequest, million) + lambdaTime(million, r.ms, r.memoryMB),
		dollars(readUnit, r.reads*million),
		dollars(writeUnit, r.writes*million),
		dollars(logIntake, r.logBytes*million/1e9),
	}
}

// perMillion returns the cost of a million requests.
func (r requestKind) perMillion() float64 { return sum(r.parts()) }

// requestKinds returns the kinds of requests, beginning with the kinds of gateway requests.
func requestKinds(m measured) ([]requestKind, error) {
	var missing []string
	lookUp := func(ledger map[string]units, row string) units {
		u, ok := ledger[row]
		if !ok {
			missing = append(missing, row)
		}
		return u
	}
	check := lookUp(m.keys, "check a key")
	deployment := units{deploymentReads, 0}
	gateway := func(name string, additional units) requestKind {
		return requestKind{
			name:  "gateway: " + name,
			units: units{deployment.reads + additional.reads, additional.writes}, ms: upstreamMS + gatewayMS,
			memoryMB: m.memoryMB["gateway"], logBytes: gatewayLog + accessLog,
		}
	}
	management := func(ledger map[string]units, row, name string, ms float64) requestKind {
		return requestKind{
			name: name, units: lookUp(ledger, row), ms: ms, memoryMB: m.memoryMB["consumers"],
			logBytes: managementLog + accessLog,
		}
	}
	summarized := func(r requestKind) requestKind {
		r.summarized = true
		return r
	}
	out := []requestKind{
		gateway("no key, or one that the process knows", units{}),
		gateway("a key that it has to look up", check),
		// A lease is one read and one write of one item, in a transaction.
		gateway("a known key, and a strict limit", units{1.0 / admittedPerWrite, 2.0 / admittedPerWrite}),
		summarized(management(m.operations, "ApiKeyConsumersService_read", "read a consumer", readMS)),
		management(m.keys, "list 100 consumers", "list 100 consumers", readMS),
		management(m.operations, "V1_deploymentStatus", "ask how a build goes", readMS),
		summarized(management(m.operations, "ApiKeyConsumersService_create", "create a consumer", changeMS)),
		summarized(management(m.keys, "create a consumer with a key, 5 tags and a manager",
			"create a consumer with a key, 5 tags and a manager", changeMS)),
		management(m.operations, "ApiKeyKeysService_create", "create a key", changeMS),
		management(m.operations, "ApiKeyConsumersService_rollKey", "roll a key", changeMS),
		management(m.keys, "create 40 keys", "create 40 keys at once", changeMS),
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("the ledgers have no rows named %s", strings.Join(missing, ", "))
	}
	if out[0].memoryMB == 0 || out[3].memoryMB == 0 {
		return nil, fmt.Errorf("%s has no memory of the function gateway or consumers", functionSummaries)
	}
	return out, nil
}

func requestTable(kinds []requestKind) string {
	t := newTable("a million of", "units read", "units written", "ms", "API Gateway", "Lambda", "reads", "writes", "logs",
		"**$**")
	for _, r := range kinds {
		cells := []string{r.name, formatNumber(r.reads), formatNumber(r.writes), formatNumber(r.ms)}
		for _, part := range r.parts() {
			cells = append(cells, formatDollars(part))
		}
		t.row(append(cells, "**"+formatDollars(r.perMillion())+"**")...)
	}
	return t.String()
}
