package product

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/smithy-go"
	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/local/transfer"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	sharedrootkey "github.com/gatewright/gatewright/shared/core/store/rootkey"
	"github.com/gatewright/gatewright/shared/core/store/stream"
	"github.com/gatewright/gatewright/shared/resource/accounts"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

// awsNames are the names of an installation's resources in AWS. They have no defaults, because a default could be the
// name of another installation's resource.
type awsNames struct{ table, bucket, kmsKey string }

func (n *awsNames) addFlags(c *cobra.Command, preposition string) {
	c.Flags().StringVar(&n.table, "table", "", preposition+" AWS: the name of the DynamoDB table")
	c.Flags().StringVar(&n.bucket, "bucket", "", preposition+" AWS: the name of the S3 bucket")
	c.Flags().StringVar(&n.kmsKey, "kms-key", "", preposition+" AWS: the id of the KMS key that wraps the root key")
}

// remote is an installation's table in DynamoDB and its bucket in S3. For an import, the installation is still empty.
type remote struct {
	name   string // the table, for messages
	region string // "" outside AWS
	table  *store.Table
	items  transfer.Items
	bucket *blob.Bucket
	keeper transfer.RootKeeper
	// dir has the file with the root key. It is nil if KMS wraps the root key.
	dir *datadir.Dir
}

// withRemote calls do with the remote that n or the settings name. If they
// name none, it calls runInData, which runs the command on the data directory.
func (a administration) withRemote(
	cmd *cobra.Command, n awsNames, do func(*remote) error, runInData func(*cobra.Command, []string) error, args []string,
) error {
	s, err := a.program.settings(os.Getenv)
	if err != nil {
		return err
	}
	switch {
	case a.running != nil: // another process sends a command only if no remote is named
		return runInData(cmd, args)
	case n != awsNames{}:
		r, err := n.open(s)
		if err != nil {
			return err
		}
		if err := n.checkExists(cmd.Context(), r); err != nil {
			return err
		}
		return do(r)
	case (s.dynamoDB == "") != (s.s3 == ""):
		return fmt.Errorf("the data are only in part in files of ours: set both of %s and %s, or none",
			config.VarDynamoDBEndpoint, config.VarS3Endpoint)
	case s.dynamoDB != "":
		return a.withEndpoints(cmd.Context(), s, cmd.Name(), do)
	}
	return runInData(cmd, args)
}

// open opens an installation in AWS, with the credentials of the environment. It sends no request.
func (n awsNames) open(s settings) (*remote, error) {
	if n.table == "" || n.bucket == "" || n.kmsKey == "" {
		return nil, errors.New("an installation in AWS has three names: give --table, --bucket and --kms-key, which `aws " +
			"cloudformation describe-stacks` shows as TableName, BucketName and RootKeyId")
	}
	sdk, err := cloud.SDK(s.getenv)
	if err != nil {
		return nil, fmt.Errorf("%w: `eval \"$(aws configure export-credentials --format env)\"` sets the credentials", err)
	}
	for flag, name := range map[string]string{"--table": n.table, "--kms-key": n.kmsKey} {
		if parsed, err := arn.Parse(name); err == nil && parsed.Region != sdk.Region {
			return nil, fmt.Errorf("%s is in %s, and AWS_REGION says %s: an installation is in one region, its KMS key too "+
				"(docs/aws.md, \"Move to another region\")", flag, parsed.Region, sdk.Region)
		}
	}
	s3 := s.s3
	if s3 == "" {
		s3 = aws.ToString(sdk.BaseEndpoint)
	}
	r := newRemote(sdk, s.dynamoDB, s3, n.table, n.bucket, store.Options{Random: rand.Reader, Now: time.Now})
	r.name, r.region = "the table "+n.table, sdk.Region
	r.keeper = newWrappedKey(sdk, n.kmsKey, r.table)
	return r, nil
}

// checkExists returns an error if the table or the bucket does not exist, before any slow work begins.
func (n awsNames) checkExists(ctx context.Context, r *remote) error {
	_, err := installation.IsImporting(ctx, r.table)
	for _, listErr := range r.bucket.List(ctx, "") {
		err = cmp.Or(err, listErr)
		break
	}
	return n.explain(err, r.region)
}

// explain replaces an AWS error about a missing resource by an error that names the resource
// and the region. AWS's errors for resources in another region do not mention regions.
func (n awsNames) explain(err error, region string) error {
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return err
	}
	switch api.ErrorCode() {
	case "ResourceNotFoundException":
		return fmt.Errorf("there is no table %s in %s, which AWS_REGION names: check --table and AWS_REGION", n.table, region)
	case "NoSuchBucket":
		return fmt.Errorf("there is no bucket %s: check --bucket", n.bucket)
	case "PermanentRedirect", "AuthorizationHeaderMalformed":
		return fmt.Errorf("the bucket %s is in another region than %s, which AWS_REGION names: an installation is in one "+
			"region (docs/aws.md, \"Move to another region\")", n.bucket, region)
	}
	return err
}

// newRemote returns a remote without its name, region and keeper.
func newRemote(sdk aws.Config, dynamoDB, s3, table, bucket string, o store.Options) *remote {
	client := store.Connect(sdk, dynamoDB)
	return &remote{
		table: store.New(store.NewDynamoDB(client, table), o),
		items: func(ctx context.Context, visit func(store.Item) error) error {
			return store.EachItem(ctx, client, table, nil, visit)
		},
		bucket: blob.New(sdk, blob.Options{Name: bucket, Endpoint: s3}),
	}
}

// withEndpoints calls do with the table and the bucket at the endpoints of the settings, and with the data directory
// that contains the root key. It creates the table and the bucket if they do not exist. It fails if the product runs
// with that directory.
func (a administration) withEndpoints(ctx context.Context, s settings, command string, do func(*remote) error) error {
	dir, err := datadir.Open(s.dataDir)
	if err != nil {
		return err
	}
	l, err := lock(ctx, dir, command, func(state datadir.State) error {
		if state.Command != runCommand {
			return nil // a command has the lock for a short time: try again
		}
		return fmt.Errorf("gatewright runs in %s (process %d) and writes: stop it first", s.dataDir, state.PID)
	})
	if err != nil {
		return err
	}
	defer l.Release()
	defer dir.ClearState()
	if _, err := connect(ctx, s, s.dynamoDB); err != nil {
		return endpointError(err, config.VarDynamoDBEndpoint)
	}
	if err := checkReachable(ctx, s.s3); err != nil {
		return endpointError(err, config.VarS3Endpoint)
	}
	r := newRemote(s.awsConfig(emulatorCredentials()), s.dynamoDB, s.s3, tableName, bucketName,
		store.Options{Random: rand.Reader, Now: time.Now, KeepTokens: true})
	if err := r.bucket.Create(ctx); err != nil {
		return endpointError(err, config.VarS3Endpoint)
	}
	r.name, r.dir, r.keeper = "the table at "+s.dynamoDB, dir, rootKeyFile{dir, r.table}
	return do(r)
}

// rootKeyFile is the RootKeeper for a root key in a data directory whose table is elsewhere.
type rootKeyFile struct {
	dir   *datadir.Dir
	table *store.Table
}

var _ transfer.RootKeeper = rootKeyFile{}

// Root implements transfer.RootKeeper.
func (k rootKeyFile) Root(ctx context.Context) (sharedrootkey.ExportedKey, error) {
	return sharedrootkey.ExportFile(ctx, k.dir.Path(rootkey.Name), k.table)
}

// Adopt implements transfer.RootKeeper. It writes the file before data is sealed under the key. If the file exists, it
// must contain the same key.
func (k rootKeyFile) Adopt(ctx context.Context, root sharedrootkey.ExportedKey) ([]store.Write, error) {
	path := k.dir.Path(rootkey.Name)
	existing, err := seal.ExistingFile(path).Root(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = k.dir.Write(rootkey.Name, root.Key)
	case err == nil && subtle.ConstantTimeCompare(existing, root.Key) != 1:
		err = fmt.Errorf("%s is of another installation: name another directory in %s", path, config.VarDataDir)
	}
	if err != nil {
		return nil, err
	}
	return sharedrootkey.ImportFile(ctx, path, root, time.Now)
}

// importPhases returns the function for transfer.Remote.PhaseOf. Items that trigger functions and items with
// credentials are imported last, after the items that are due at some time.
func importPhases() (func(store.Item) transfer.Phase, error) {
	var filters []func(events.DynamoDBEventRecord) bool
	for _, f := range functions.Triggered() {
		for _, e := range f.Events {
			if !e.FromStream {
				continue
			}
			filter, err := stream.ParseFilter(e.FilterPattern)
			if err != nil {
				return nil, fmt.Errorf("read what calls the function %s: %w", f.Name, err)
			}
			filters = append(filters, filter.Matches)
		}
	}
	dueAttribute, _ := store.DueIndex.KeyAttributes()
	return func(item store.Item) transfer.Phase {
		key := store.KeyOf(item)
		record, err := stream.ToLambda(store.StreamRecord{Key: key, New: item})
		for _, matches := range filters {
			if err != nil || matches(record) {
				return transfer.Live
			}
		}
		if accounts.IsCredential(key) {
			return transfer.Live
		}
		if _, hasDue := item[dueAttribute]; hasDue {
			return transfer.Due
		}
		return transfer.Plain
	}, nil
}
