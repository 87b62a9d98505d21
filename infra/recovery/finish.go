package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/core/audit/proof"
	"github.com/gatewright/gatewright/shared/core/audit/trail"
	"github.com/gatewright/gatewright/shared/core/config"
)

// liveAlias is the alias through which all functions are called. infra creates it.
const liveAlias = "live"

// finishRestore does the second part of a restore, after the stack was deployed with the restored table.
func (w *work) finishRestore(ctx context.Context, p plan) error {
	d, err := w.configureTable(ctx, p) // an operator may have changed the table since the first part
	if err != nil {
		return err
	}
	for _, name := range p.stack.allFunctions() {
		if err := w.checkDeployed(ctx, p, name); err != nil {
			return err
		}
	}
	for _, f := range functions.Triggered() {
		for _, e := range f.Events {
			if e.FromStream {
				if err := w.checkStreamMapping(ctx, p, f.Name, aws.ToString(d.LatestStreamArn)); err != nil {
					return err
				}
			}
		}
	}
	if err := w.checkRootKey(ctx, p); err != nil {
		return err
	}
	n, err := w.startFunctions(ctx, p.stack, restoreTag)
	if err != nil {
		return err
	}
	w.logf("%d functions are open again", n)
	if err := w.replayRecords(ctx, p); err != nil {
		return err
	}
	if err := w.verifyAuditLogs(ctx, p); err != nil {
		return err
	}
	w.logf("an end of an audit log that was noted after the moment is not in it")
	w.logf("the restore is done. The table of before is protected and costs its storage: delete it when you need " +
		"nothing of it any more")
	return nil
}

// checkDeployed returns an error for a function that still uses another table.
func (w *work) checkDeployed(ctx context.Context, p plan, name string) error {
	out, err := w.functions.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{
		FunctionName: &name,
		Qualifier:    aws.String(liveAlias),
	})
	if err != nil {
		return fmt.Errorf("look at the function %s: %w", name, err)
	}
	if out.Environment == nil || out.Environment.Variables[config.VarTable] != p.target {
		return fmt.Errorf("the function %s does not work on %s: deploy with tableStream first, and run this again when all "+
			"of it is released", name, p.target)
	}
	return nil
}

// checkStreamMapping returns an error for a function that the restored table's stream does not call.
func (w *work) checkStreamMapping(ctx context.Context, p plan, name, stream string) error {
	name = p.stack.name + "-" + name
	out, err := w.functions.ListEventSourceMappings(ctx,
		&lambda.ListEventSourceMappingsInput{FunctionName: aws.String(name + ":" + liveAlias), EventSourceArn: &stream})
	if err != nil {
		return fmt.Errorf("look at what calls the function %s: %w", name, err)
	}
	for _, m := range out.EventSourceMappings {
		if aws.ToString(m.State) == "Enabled" && aws.ToString(m.EventSourceArn) == stream {
			return nil
		}
	}
	return fmt.Errorf("the stream %s does not call the function %s: deploy with tableStream %s, and run this again",
		stream, name, stream)
}

// replayRecords calls functions with a record of each item in the restored table for which a stream would call them. At
// the restored moment, the old table's stream may not have delivered some of these records. The stream of the restored
// table does not deliver them, because it begins later. Functions ignore records that they have processed before.
func (w *work) replayRecords(ctx context.Context, p plan) error {
	counts := map[string]int{}
	err := w.eachStreamBatch(ctx, p.target,
		func(ctx context.Context, function string, batch []events.DynamoDBEventRecord) error {
			payload, err := json.Marshal(events.DynamoDBEvent{Records: batch})
			if err != nil {
				return fmt.Errorf("encode what the function %s is told: %w", function, err)
			}
			name := p.stack.name + "-" + function
			out, err := w.functions.Invoke(ctx, &lambda.InvokeInput{
				FunctionName: &name, Qualifier: aws.String(liveAlias),
				Payload: payload,
			})
			switch {
			case errorCode(err) == "TooManyRequestsException":
				// The function has only just been started, and Lambda may still refuse calls.
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-time.After(w.poll):
				}
				out, err = w.functions.Invoke(ctx, &lambda.InvokeInput{
					FunctionName: &name, Qualifier: aws.String(liveAlias),
					Payload: payload,
				})
			}
			if err != nil {
				return fmt.Errorf("tell the function %s: %w", name, err)
			}
			if out.FunctionError != nil {
				return fmt.Errorf("the function %s fails (%s): its log says why; run this again then", name, *out.FunctionError)
			}
			var response events.DynamoDBEventResponse
			if err := json.Unmarshal(out.Payload, &response); err != nil {
				return fmt.Errorf("read what the function %s answers: %w", name, err)
			}
			if n := len(response.BatchItemFailures); n > 0 {
				return fmt.Errorf("the function %s has not taken %d of %d records: its log says why; run this again then", name, n,
					len(batch))
			}
			counts[function] += len(batch)
			return nil
		})
	for _, f := range functions.Triggered() {
		if counts[f.Name] > 0 {
			w.logf("%s was told of %d records that a stream may not have told of", f.Name, counts[f.Name])
		}
	}
	return err
}

// verifyAuditLogs verifies the audit logs of all accounts, and reports the result for each. It returns an error if any
// of them is broken.
func (w *work) verifyAuditLogs(ctx context.Context, p plan) error {
	s, err := w.survey(ctx, p.target)
	if err != nil {
		return err
	}
	t := trail.Open(w.parts(p.stack, p.target))
	broken := 0
	for _, a := range s.accounts {
		r, err := t.Verify(ctx, a.ID, proof.Commitment{})
		switch {
		case err != nil:
			return fmt.Errorf("verify the audit log of %s: %w", a.Name, err)
		case r.Break != "":
			broken++
			_, _ = fmt.Fprintf(w.out, "the audit log of %s is broken: %s\n", a.Name, r.Break)
		case r.Records() == 0:
			w.logf("the audit log of %s has no chained records", a.Name)
		default:
			w.logf("the audit log of %s is whole: %d records, the end is %s", a.Name, r.Records(), r.End)
		}
	}
	if broken > 0 {
		return errors.New("an audit log is broken, as it came: the installation is open all the same")
	}
	return nil
}
