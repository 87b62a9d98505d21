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
	"github.com/gatewright/gatewright/local/triggers"
	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/cloud"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	sharedrootkey "github.com/gatewright/gatewright/shared/store/rootkey"
	"github.com/gatewright/gatewright/shared/store/stream"
)

// awsNames are those of an installation in AWS. None has a default: a wrong guess would be another
// installation.
type awsNames struct{ table, bucket, kmsKey string }

func (n *awsNames) flags(c *cobra.Command, direction string) {
	c.Flags().StringVar(&n.table, "table", "", direction+" AWS: the name of the DynamoDB table")
	c.Flags().StringVar(&n.bucket, "bucket", "", direction+" AWS: the name of the S3 bucket")
	c.Flags().StringVar(&n.kmsKey, "kms-key", "", direction+" AWS: the id of the KMS key that wraps the root key")
}

// place is a DynamoDB and an S3 that have an installation, or are to have one.
type place struct {
	name   string // for who reads
	region string // in AWS
	table  *store.Table
	items  transfer.Items
	bucket *blob.Bucket
	keeper transfer.Keeper
	// dir is where the root key lies in a file, nil where KMS wraps it.
	dir *datadir.Dir
}

// atPlace calls do with the place that is named, or else what does the same with the data directory.
func (a administration) atPlace(cmd *cobra.Command, n awsNames, do func(*place) error, inData func(*cobra.Command, []string) error, args []string) error {
	s, err := a.program.settings(os.Getenv)
	if err != nil {
		return err
	}
	switch {
	case a.own != nil: // whoever asked for it has no place named
		return inData(cmd, args)
	case n != awsNames{}:
		p, err := n.open(s)
		if err != nil {
			return err
		}
		if err := n.there(cmd.Context(), p); err != nil {
			return err
		}
		return do(p)
	case (s.dynamoDB == "") != (s.s3 == ""):
		return fmt.Errorf("the data are only in part in files of ours: set both of %s and %s, or none", config.VarDynamoDBEndpoint, config.VarS3Endpoint)
	case s.dynamoDB != "":
		return a.atEndpoints(cmd.Context(), s, cmd.Name(), do)
	}
	return inData(cmd, args)
}

// open opens an installation in AWS, by the credentials of the environment. It makes no request.
func (n awsNames) open(s settings) (*place, error) {
	if n.table == "" || n.bucket == "" || n.kmsKey == "" {
		return nil, errors.New("an installation in AWS has three names: give --table, --bucket and --kms-key, which `aws cloudformation describe-stacks` shows as TableName, BucketName and RootKeyId")
	}
	sdk, err := cloud.SDK(s.getenv)
	if err != nil {
		return nil, fmt.Errorf("%w: `eval \"$(aws configure export-credentials --format env)\"` sets the credentials", err)
	}
	for flag, name := range map[string]string{"--table": n.table, "--kms-key": n.kmsKey} {
		if parsed, err := arn.Parse(name); err == nil && parsed.Region != sdk.Region {
			return nil, fmt.Errorf("%s is in %s, and AWS_REGION says %s: an installation is in one region, its KMS key too (docs/aws.md, \"Move to another region\")", flag, parsed.Region, sdk.Region)
		}
	}
	s3 := s.s3
	if s3 == "" {
		s3 = aws.ToString(sdk.BaseEndpoint)
	}
	p := newPlace(sdk, s.dynamoDB, s3, n.table, n.bucket, store.Options{Random: rand.Reader, Now: time.Now})
	p.name, p.region = "the table "+n.table, sdk.Region
	p.keeper = wrappedIn(sdk, n.kmsKey, p.table)
	return p, nil
}

// there asks for the table and the bucket before anything is made or read that takes long. AWS's own words for what is in another region say nothing of regions.
func (n awsNames) there(ctx context.Context, p *place) error {
	err := transfer.Reached(ctx, p.table)
	for _, failed := range p.bucket.List(ctx, "") {
		err = cmp.Or(err, failed)
		break
	}
	return n.explained(err, p.region)
}

// explained says which name is of nothing that AWS has in the region.
func (n awsNames) explained(err error, region string) error {
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
		return fmt.Errorf("the bucket %s is in another region than %s, which AWS_REGION names: an installation is in one region (docs/aws.md, \"Move to another region\")", n.bucket, region)
	}
	return err
}

func newPlace(sdk aws.Config, dynamoDB, s3, table, bucket string, o store.Options) *place {
	client := store.Connect(sdk, dynamoDB)
	return &place{
		table: store.New(store.NewDynamoDB(client, table), o),
		items: func(ctx context.Context, visit func(store.Item) error) error {
			return store.EachItem(ctx, client, table, nil, visit)
		},
		bucket: blob.New(sdk, blob.Options{Name: bucket, Endpoint: s3}),
	}
}

// atEndpoints opens what the settings name, with the data directory that has the root key, while
// no product runs over it.
func (a administration) atEndpoints(ctx context.Context, s settings, command string, do func(*place) error) error {
	dir, err := datadir.Open(s.dataDir)
	if err != nil {
		return err
	}
	l, err := lock(ctx, dir, command, func(state datadir.State) error {
		if state.Command != runCommand {
			return nil // a short command: it will not be long
		}
		return fmt.Errorf("gatewright runs in %s (process %d) and writes: stop it first", s.dataDir, state.PID)
	})
	if err != nil {
		return err
	}
	defer l.Release()
	defer dir.ClearState()
	if _, err := connect(ctx, s, s.dynamoDB); err != nil {
		return elsewhere(err, config.VarDynamoDBEndpoint)
	}
	if err := reach(ctx, s.s3); err != nil {
		return elsewhere(err, config.VarS3Endpoint)
	}
	p := newPlace(s.aws(anyCredentials()), s.dynamoDB, s.s3, tableName, bucketName, store.Options{Random: rand.Reader, Now: time.Now, KeepTokens: true})
	if err := p.bucket.Create(ctx); err != nil {
		return elsewhere(err, config.VarS3Endpoint)
	}
	p.name, p.dir, p.keeper = "the table at "+s.dynamoDB, dir, keyFile{dir, p.table}
	return do(p)
}

// keyFile is the root key in a data directory, of a table elsewhere.
type keyFile struct {
	dir   *datadir.Dir
	table *store.Table
}

var _ transfer.Keeper = keyFile{}

// Root implements transfer.Keeper.
func (k keyFile) Root(ctx context.Context) (sharedrootkey.Moved, error) {
	return sharedrootkey.ExistingInFile(ctx, k.dir.Path(rootkey.Name), k.table)
}

// Adopt implements transfer.Keeper. The file is there before anything is sealed under it.
func (k keyFile) Adopt(ctx context.Context, root sharedrootkey.Moved) ([]store.Write, error) {
	path := k.dir.Path(rootkey.Name)
	there, err := seal.ExistingFile(path).Root(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = k.dir.Write(rootkey.Name, root.Key)
	case err == nil && subtle.ConstantTimeCompare(there, root.Key) != 1:
		err = fmt.Errorf("%s is of another installation: name another directory in %s", path, config.VarDataDir)
	}
	if err != nil {
		return nil, err
	}
	return sharedrootkey.AdoptInFile(ctx, path, root, time.Now)
}

// turns says when an item is imported: what the functions of an installation act on comes last.
func turns() (func(store.Item) transfer.Turn, error) {
	var acted []func(events.DynamoDBEventRecord) bool
	for _, f := range functions.Triggered() {
		for _, e := range f.On {
			if !e.StreamRecords {
				continue
			}
			meets, err := triggers.Pattern(e.FilterPattern)
			if err != nil {
				return nil, fmt.Errorf("read what calls the function %s: %w", f.Name, err)
			}
			acted = append(acted, meets)
		}
	}
	due, _ := store.DueIndex.KeyAttributes()
	return func(item store.Item) transfer.Turn {
		key := store.KeyOf(item)
		record, err := stream.ToLambda(store.StreamRecord{Key: key, New: item})
		for _, meets := range acted {
			if err != nil || meets(record) {
				return transfer.Live
			}
		}
		if accounts.IsCredential(key) {
			return transfer.Live
		}
		if _, is := item[due]; is {
			return transfer.Due
		}
		return transfer.Plain
	}, nil
}
