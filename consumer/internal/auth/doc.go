// Package auth is how a client proves to a broker who it is: PLAIN, SCRAM, OAUTHBEARER and
// AWS_MSK_IAM, for kafka-go and for kgo from one declaration. A credential is read at each new
// connection, and no error holds one.
package auth
