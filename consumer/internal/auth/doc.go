// Package auth logs a client in at the brokers: with PLAIN, SCRAM, OAUTHBEARER or AWS_MSK_IAM,
// for kafka-go and for kgo from one [SASL] value.
//
// Each new connection asks for the credential again, so a rotated credential is used without
// a restart. No error and no String method shows a credential. A credential that its mechanism
// can't carry gives [ErrUnsuitable]; the caller should not retry that. Any other error may
// pass, such as a file or an endpoint that can't be read now.
//
// [SASLConfig] is the account as the configuration file has it. The package does not read
// files and does not fetch tokens: internal/credentials does. Only AWS's SDK finds its
// credentials itself.
//
// The package starts no goroutine. All its methods may be called from any goroutine.
package auth
