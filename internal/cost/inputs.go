package cost

import (
	"bufio"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/syntheticcheck"
)

// Assumptions: none of these values was measured in AWS. docs/cost.md states each.
const (
	upstreamMS    = 50 // the response time of an upstream
	gatewayMS     = 5  // the time that the gateway adds to upstreamMS
	readMS        = 15 // a management request that reads
	changeMS      = 30 // a management request that changes something
	sweepMS       = 20
	resetMS       = 200  // with a cold start, and 16 queries in sequence
	buildMS       = 3000 // including a wait of one second for the gateways
	platformLog   = 500  // bytes that Lambda itself logs for a call
	scheduleLog   = 850  // bytes for a call by a schedule: platformLog, and our log line with a metric
	managementLog = 1400 // bytes for a management request: platformLog, and our log line with metrics
	gatewayLog    = 900  // bytes for a gateway request: platformLog, and our log line
	accessLog     = 280  // bytes of a line of API Gateway's access log, and those that CloudWatch adds to each line
	// the processor time that a task needs for a request with TLS: more than three times the value in docs/performance.md
	requestCPUus = 200
	// the maximum utilization of a task's processors: docs/decisions/0064-gateways-follow-their-processors.md
	busyShare             = 0.6
	requestKB             = 3   // a request and its response, as the load balancer forwards them
	otherZone             = 0.5 // the part of requestKB that goes to another zone: half of it with two zones
	buildReads            = 20  // units
	buildWrites           = 50  // units
	buildPuts             = 3
	buildGets             = 3
	requestsPerConnection = 10 // of a client with the load balancer
	admittedPerWrite      = 20 // requests that a strict limit admits per write: docs/decisions/0015-sizes-of-leases.md
	// A gateway process reads a deployment's record at most once in half a second. If requests are rare, it reads the
	// record before each request, which is the most expensive case.
	deploymentReads  = 1.0
	tableKeyCalls    = 24 // per hour: DynamoDB's own calls to the table's KMS key
	operationMetrics = 4  // per operation: latency, errors, units read and written
	// The counts of requests: docs/decisions/0044-rows-of-counts-are-rolled-up.md.
	rollupMS      = 20  // without counts to merge
	rowReads      = 1   // units: a write first reads its row, which does not exist yet
	callsPerWrite = 100 // calls that a gateway with many calls counts in one write
	rowWrites     = 5   // units: two items of a transaction, and an entry of an index
	mergeMS       = 50  // for a deployment in a minute
	mergeReads    = 12  // units: five rows, the waiting counts, and the number of rollups
	mergeWrites   = 30  // five rows of 2 KB, the counts that waited, and the number of rollups, each twice
	// The check from another region: docs/decisions/0081-a-synthetic-check-runs-in-another-region.md.
	checkMS      = 1000 // two concurrent TLS handshakes and requests, across an ocean
	checkMetrics = 3    // two checks, and the remaining days of certificates
	checkLog     = 1900 // bytes: four lines of ours with metrics, and Lambda's own
)

// units are the capacity units of the database, as a ledger lists them.
type units struct{ reads, writes float64 }

// measured contains the values from the golden files of other packages, and the declared schedules.
type measured struct {
	// keys contains the rows of keysLedger, by name. operations contains the rows of operationsLedgers.
	keys, operations map[string]units
	// resources is the number of resources of each type in the templates.
	resources map[string]float64
	// memoryMB is the memory of each function.
	memoryMB map[string]float64
	// services contains, by name, the services that an installation has only if the CDK context requests them.
	services map[string]service
	// schedules are the schedules that the functions declare.
	schedules []scheduled
	// check is the number of resources of each type in the synthetic check's stack. checkCalls is the number of calls
	// of its function in a month.
	check      map[string]float64
	checkCalls float64
}

// checkFunction is the name of the synthetic check's function in memoryMB.
const checkFunction = "syntheticcheck"

// service describes a service: its smallest number of tasks, the CPU units (1024 for one processor) and megabytes of each task, and the other
// resources that exist only for the service.
type service struct {
	tasks, cpuUnits, memoryMB float64
	resources                 map[string]float64
	// alarmMetrics is the number of metrics of the service's alarms: an alarm on the sum of two metrics costs as much
	// as two alarms.
	alarmMetrics float64
}

// The golden files, as paths from the root of the repository.
const (
	keysLedger        = "shared/resource/keys/testdata/ledger.txt"
	operationsLedgers = "functions/*/testdata/ledger.txt"
	// The summaries of the templates: the installation's own, a file for each function and each service, and the synthetic
	// check's.
	installationSummary = "infra/testdata/template.txt"
	functionSummaries   = "infra/testdata/functions/*.txt"
	serviceSummaries    = "infra/testdata/services/*.txt"
	checkSummary        = "infra/testdata/check.txt"
)

// read returns the values of the golden files below root, and the declared schedules.
func read(root fs.FS) (measured, error) {
	m := measured{
		operations: map[string]units{}, resources: map[string]float64{}, memoryMB: map[string]float64{},
		services: map[string]service{}, check: map[string]float64{},
	}
	var err error
	if m.keys, err = readLedger(root, keysLedger); err != nil {
		return m, err
	}
	ledgers, err := fs.Glob(root, operationsLedgers)
	if err != nil {
		return m, fmt.Errorf("find the ledgers of operations: %w", err)
	}
	for _, path := range ledgers {
		rows, err := readLedger(root, path)
		if err != nil {
			return m, err
		}
		maps.Copy(m.operations, rows)
	}
	summaries, err := fs.Glob(root, functionSummaries)
	if err != nil {
		return m, fmt.Errorf("list %s: %w", functionSummaries, err)
	}
	for _, summary := range append(summaries, installationSummary) {
		if err := countResources(root, summary, m.resources); err != nil {
			return m, err
		}
	}
	if err := countResources(root, checkSummary, m.check); err != nil {
		return m, err
	}
	for _, summary := range append(summaries, checkSummary) {
		err := eachMatch(root, summary, `^([A-Za-z]+)Function +\S+ \S+ (\d+) MB`, func(groups []string, n []float64) {
			m.memoryMB[strings.ToLower(groups[0])] = n[1]
		})
		if err != nil {
			return m, err
		}
	}
	services, err := fs.Glob(root, serviceSummaries)
	if err != nil {
		return m, fmt.Errorf("list %s: %w", serviceSummaries, err)
	}
	for _, summary := range services {
		svc, name := service{resources: map[string]float64{}}, ""
		err := eachMatch(root, summary, `^([A-Za-z]+)Service (\d+)(?: to \d+)? tasks, (\d+) CPU units, (\d+) MB`,
			func(groups []string, n []float64) {
				name, svc.tasks, svc.cpuUnits, svc.memoryMB = strings.ToLower(groups[0]), n[1], n[2], n[3]
			})
		if err != nil {
			return m, err
		}
		if err := eachMatch(root, summary, `^alarms, by (\d+) metrics$`, func(_ []string, n []float64) {
			svc.alarmMetrics = n[0]
		}); err != nil {
			return m, err
		}
		if err := countResources(root, summary, svc.resources); err != nil {
			return m, err
		}
		m.services[name] = svc
	}
	if m.checkCalls, err = callsPerMonth(*syntheticcheck.Function.Events[0].Schedule); err != nil {
		return m, err
	}
	m.schedules, err = schedules(functions.Triggered())
	return m, err
}

// countResources adds the number of resources of each type in a summary to the map called to.
func countResources(root fs.FS, summary string, to map[string]float64) error {
	return eachMatch(root, summary, `^ +(\d+) (AWS::\S+)$`, func(groups []string, n []float64) { to[groups[1]] += n[0] })
}

// readLedger returns the units of each row of a ledger by the row's name. A row has a name, three counts of calls, and
// the units read and written.
func readLedger(root fs.FS, path string) (map[string]units, error) {
	rows := map[string]units{}
	err := eachMatch(root, path, `^(\S.*?) +\d+ +\d+ +\d+ +([\d.]+) +([\d.]+)$`, func(groups []string, n []float64) {
		rows[groups[0]] = units{n[1], n[2]}
	})
	return rows, err
}

// eachMatch calls found for each matching line. groups are the groups of the match. numbers has the value of each group
// at the same index, or 0 for a group that is not a number. A file without a matching line is an error.
func eachMatch(root fs.FS, path, pattern string, found func(groups []string, numbers []float64)) error {
	file, err := root.Open(path)
	if err != nil {
		return fmt.Errorf("read the measured values: %w", err)
	}
	defer func() { _ = file.Close() }()
	matching, times := regexp.MustCompile(pattern), 0
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		match := matching.FindStringSubmatch(lines.Text())
		if match == nil {
			continue
		}
		times++
		numbers := make([]float64, len(match)-1)
		for i, text := range match[1:] {
			if n, err := strconv.ParseFloat(text, 64); err == nil {
				numbers[i] = n
			}
		}
		found(match[1:], numbers)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if times == 0 {
		return fmt.Errorf("read %s: no line matches %s", path, pattern)
	}
	return nil
}
