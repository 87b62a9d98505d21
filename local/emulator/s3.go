package emulator

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/supervise"
)

// Credentials sign requests to the S3 of an installation.
type Credentials struct {
	AccessKeyID     string `json:"accessKeyId"`
	SecretAccessKey string `json:"secretAccessKey"`
}

// accessKeyID is the same for ever: it owns the bucket.
const accessKeyID = "gatewright"

const credentialsFile = "s3-credentials.json"

// LoadCredentials returns the installation's credentials, which are made at the
// first start. Unreadable ones are replaced: nothing but this installation
// knows them, and upload addresses live 15 minutes.
func LoadCredentials(dir *datadir.Dir) (Credentials, error) {
	var c Credentials
	content, err := dir.Read(credentialsFile)
	if err == nil && json.Unmarshal(content, &c) == nil && c.AccessKeyID == accessKeyID && c.SecretAccessKey != "" {
		return c, nil
	}
	c = Credentials{AccessKeyID: accessKeyID, SecretAccessKey: randomHex(20)}
	content, err = json.Marshal(c)
	if err != nil {
		return Credentials{}, fmt.Errorf("encode credentials: %w", err)
	}
	if err := dir.Write(credentialsFile, append(content, '\n')); err != nil {
		return Credentials{}, err
	}
	return c, nil
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// S3Config is the configuration of the S3 server.
type S3Config struct {
	Credentials
	// Address is the host and port on which the server listens.
	Address string `json:"address"`
	// Root is the folder of the objects.
	Root string `json:"root"`
	// Sidecar is the folder of the objects' attributes on a file system that has no
	// extended attributes.
	Sidecar string `json:"sidecar"`
}

// S3Options are what StartS3 needs.
type S3Options struct {
	Dir *datadir.Dir
	// Program is the path of the emulators' program.
	Program     string
	Credentials Credentials
	// Created is told of every object that was stored, as S3's event. It is
	// called from one goroutine and may take its time. An event can be lost
	// when a process dies: who needs every object lists them at its start.
	Created func(events.S3Event)
	Log     *slog.Logger
}

// StartS3 starts the S3 whose objects are in o.Dir, and returns when it
// answers.
func StartS3(ctx context.Context, o S3Options) (*Emulator, error) {
	root, err := o.Dir.Sub(datadir.EmulatedObjects)
	if err != nil {
		return nil, err
	}
	return start(ctx, o.Dir, "s3", o.Log, func(port string) (supervise.Spec, error) {
		config, err := json.Marshal(S3Config{
			Credentials: o.Credentials,
			Address:     "127.0.0.1:" + port,
			Root:        root,
			Sidecar:     o.Dir.Path("s3-attributes"),
		})
		if err != nil {
			return supervise.Spec{}, fmt.Errorf("encode the S3 server's configuration: %w", err)
		}
		client := S3Client("http://127.0.0.1:"+port, o.Credentials)
		return supervise.Spec{
			Name:  "S3",
			Path:  o.Program,
			Args:  []string{S3ServerCommand},
			Env:   environment(),
			Input: append(config, '\n'),
			Notes: func(r io.Reader) { forward(r, o.Created) },
			Ready: func(ctx context.Context) error {
				_, err := client.ListBuckets(ctx, &s3.ListBucketsInput{})
				return err
			},
		}, nil
	})
}

// queued is how many events wait for a slow receiver before more are dropped.
const queued = 4096

// forward decodes the events in r, one a line. It never lets the server wait
// for the receiver.
func forward(r io.Reader, created func(events.S3Event)) {
	queue := make(chan events.S3Event, queued)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range queue {
			created(e)
		}
	}()
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break // a line without an end is half an event
		}
		var e events.S3Event
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		select {
		case queue <- e:
		default:
		}
	}
	close(queue)
	<-done
}

// S3Client makes a client of the S3 at endpoint. It repeats nothing.
func S3Client(endpoint string, c Credentials) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(endpoint),
		Region:       Region,
		UsePathStyle: true,
		Credentials:  credentials.NewStaticCredentialsProvider(c.AccessKeyID, c.SecretAccessKey, ""),
		Retryer:      aws.NopRetryer{},
	})
}
