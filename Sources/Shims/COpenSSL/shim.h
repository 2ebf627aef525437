#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/pkcs12err.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <string.h>

/* Swift does not import macros that call functions or cast constants. */

static inline int divan_ssl_use_tls13_only(SSL_CTX *context) {
  return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set1_groups_list(context, "X25519") == 1 &&
         SSL_CTX_set1_sigalgs_list(context, "ed25519") == 1;
}

static inline int divan_ssl_use_version(SSL_CTX *context, int is_tls13_only) {
  return SSL_CTX_set_min_proto_version(context, is_tls13_only ? TLS1_3_VERSION : TLS1_2_VERSION);
}

static inline void divan_ssl_keep_no_sessions(SSL_CTX *context) {
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_num_tickets(context, 0);
}

/* certificates: the most bytes of the other side's certificates. */
static inline void divan_ssl_bound_buffers(SSL_CTX *context, size_t input, long certificates) {
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY |
                                SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_max_cert_list(context, certificates);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, input);
}

/* record: the most bytes of a record of a handshake. */
static inline void divan_ssl_bound_handshake(SSL_CTX *context, size_t record) {
  SSL_CTX_set_max_send_fragment(context, record);
}

/* After a handshake: input is the length of the buffer for what is read ahead. */
static inline void divan_ssl_begin_content(SSL *session, size_t input, size_t record) {
  SSL_set_default_read_buffer_len(session, input);
  SSL_set_max_send_fragment(session, record);
}

static inline void divan_bio_set_retry_read(BIO *bio) {
  BIO_clear_retry_flags(bio);
  BIO_set_retry_read(bio);
}

static inline void divan_bio_clear_retry(BIO *bio) { BIO_clear_retry_flags(bio); }

static inline int divan_bio_is_flush(int command) { return command == BIO_CTRL_FLUSH; }

static inline int divan_bio_is_end_query(int command) { return command == BIO_CTRL_EOF; }

static inline int divan_ssl_is_tls13(SSL *session) { return SSL_version(session) == TLS1_3_VERSION; }

static inline int divan_ssl_add_chain(SSL_CTX *context, X509 *certificate) {
  return SSL_CTX_add1_chain_cert(context, certificate) == 1;
}

static inline void divan_ssl_prefer_own_order(SSL_CTX *context) {
  SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE);
}

static inline int divan_ssl_set_server_name(SSL *session, const char *name) {
  return SSL_set_tlsext_host_name(session, name) == 1;
}

static inline BIO *divan_bio_of(const void *bytes, size_t count) {
  return BIO_new_mem_buf(bytes, (int)count);
}

/* The content of a memory BIO, which stays its owner. */
static inline size_t divan_bio_content(BIO *bio, const char **bytes) {
  char *start = NULL;
  long count = BIO_get_mem_data(bio, &start);
  *bytes = start;
  return count > 0 ? (size_t)count : 0;
}

/* The key of P-256 whose private scalar is a seed modulo the order of the curve. */
static inline EVP_PKEY *divan_p256_key(const unsigned char *seed, size_t count) {
  EVP_PKEY *key = NULL;
  EVP_PKEY_CTX *maker = NULL;
  OSSL_PARAM *parameters = NULL;
  unsigned char public_key[65];
  EC_GROUP *group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1);
  EC_POINT *point = group ? EC_POINT_new(group) : NULL;
  BN_CTX *scratch = BN_CTX_secure_new();
  BIGNUM *scalar = BN_secure_new();
  OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
  if (point && scratch && scalar && builder && BN_bin2bn(seed, (int)count, scalar) &&
      BN_mod(scalar, scalar, EC_GROUP_get0_order(group), scratch) && !BN_is_zero(scalar) &&
      EC_POINT_mul(group, point, scalar, NULL, NULL, scratch) &&
      EC_POINT_point2oct(group, point, POINT_CONVERSION_UNCOMPRESSED, public_key, sizeof public_key,
                         scratch) == sizeof public_key &&
      OSSL_PARAM_BLD_push_utf8_string(builder, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) &&
      OSSL_PARAM_BLD_push_BN_pad(builder, OSSL_PKEY_PARAM_PRIV_KEY, scalar, 32) &&
      OSSL_PARAM_BLD_push_octet_string(builder, OSSL_PKEY_PARAM_PUB_KEY, public_key,
                                       sizeof public_key) &&
      (parameters = OSSL_PARAM_BLD_to_param(builder)) &&
      (maker = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL)) &&
      EVP_PKEY_fromdata_init(maker) == 1) {
    if (EVP_PKEY_fromdata(maker, &key, EVP_PKEY_KEYPAIR, parameters) != 1) key = NULL;
  }
  EVP_PKEY_CTX_free(maker);
  OSSL_PARAM_free(parameters);
  OSSL_PARAM_BLD_free(builder);
  BN_clear_free(scalar);
  BN_CTX_free(scratch);
  EC_POINT_free(point);
  EC_GROUP_free(group);
  return key;
}

static inline EVP_PKEY *divan_new_p256_key(void) { return EVP_EC_gen("P-256"); }

static inline int divan_x509_extend(X509 *certificate, X509 *issuer, int kind, const char *value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
  X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, kind, value);
  int is_added = extension && X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
  return is_added;
}

static inline GENERAL_NAMES *divan_names_new(void) { return sk_GENERAL_NAME_new_null(); }

static inline void divan_names_free(GENERAL_NAMES *names) {
  sk_GENERAL_NAME_pop_free(names, GENERAL_NAME_free);
}

/* Adds a host name, or an IP address in digits. */
static inline int divan_names_add_host(GENERAL_NAMES *names, const char *host) {
  GENERAL_NAME *name = GENERAL_NAME_new();
  if (!name) return 0;
  ASN1_OCTET_STRING *address = a2i_IPADDRESS(host);
  if (address) {
    GENERAL_NAME_set0_value(name, GEN_IPADD, address);
  } else {
    ASN1_IA5STRING *text = ASN1_IA5STRING_new();
    if (!text || !ASN1_STRING_set(text, host, (int)strlen(host))) {
      ASN1_IA5STRING_free(text);
      GENERAL_NAME_free(name);
      return 0;
    }
    GENERAL_NAME_set0_value(name, GEN_DNS, text);
  }
  if (sk_GENERAL_NAME_push(names, name)) return 1;
  GENERAL_NAME_free(name);
  return 0;
}

static inline int divan_x509_set_names(X509 *certificate, GENERAL_NAMES *names) {
  return X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, 0) == 1;
}

/* Calls found with each name of a certificate: 0 a common name, 1 a DNS name, 2 a URI, 3 an email address. */
static inline void divan_x509_each_name(X509 *certificate, void *context,
                                        void (*found)(void *, int, const unsigned char *, int)) {
  X509_NAME *subject = X509_get_subject_name(certificate);
  int place = -1;
  while ((place = X509_NAME_get_index_by_NID(subject, NID_commonName, place)) >= 0) {
    unsigned char *text = NULL;
    int count =
        ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, place)));
    if (count >= 0) found(context, 0, text, count);
    OPENSSL_free(text);
  }
  GENERAL_NAMES *names =
      (GENERAL_NAMES *)X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
  for (int index = 0; index < sk_GENERAL_NAME_num(names); index++) {
    int kind = 0;
    ASN1_STRING *text =
        (ASN1_STRING *)GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, index), &kind);
    int number = kind == GEN_DNS ? 1 : kind == GEN_URI ? 2 : kind == GEN_EMAIL ? 3 : 0;
    if (number) found(context, number, ASN1_STRING_get0_data(text), ASN1_STRING_length(text));
  }
  GENERAL_NAMES_free(names);
}

/* Writes a name in the form of RFC 2253, with characters beyond ASCII as they are. */
static inline int divan_x509_print_name(BIO *writer, const X509_NAME *name) {
  return X509_NAME_print_ex(writer, name, 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB);
}

/* Seconds since 1970; 0 if the time cannot be read. */
static inline long long divan_asn1_seconds(const ASN1_TIME *time) {
  int days = 0, seconds = 0;
  ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
  int is_read = epoch && ASN1_TIME_diff(&days, &seconds, epoch, time);
  ASN1_TIME_free(epoch);
  return is_read ? (long long)days * 86400 + seconds : 0;
}

/* Verifies a server's certificate at a time; returns X509_V_OK or the error, with the depth. */
static inline int divan_x509_verify(X509_STORE *store, X509 *const *chain, int count,
                                    long long now, int *depth) {
  int result = X509_V_ERR_OUT_OF_MEM;
  STACK_OF(X509) *others = sk_X509_new_null();
  X509_STORE_CTX *context = X509_STORE_CTX_new();
  for (int index = 1; others && index < count; index++) sk_X509_push(others, chain[index]);
  if (others && context && X509_STORE_CTX_init(context, store, chain[0], others) == 1) {
    X509_STORE_CTX_set_purpose(context, X509_PURPOSE_SSL_SERVER);
    X509_STORE_CTX_set_time(context, 0, (time_t)now);
    result = X509_verify_cert(context) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(context);
    *depth = X509_STORE_CTX_get_error_depth(context);
  }
  X509_STORE_CTX_free(context);
  sk_X509_free(others);
  return result;
}

/* A passphrase for PEM_read_bio_PrivateKey, whose user data is the text. */
static inline int divan_passphrase(char *buffer, int size, int is_writing, void *text) {
  (void)is_writing;
  size_t count = text ? strlen((const char *)text) : 0;
  if (count == 0 || count > (size_t)size) return -1;
  memcpy(buffer, text, count);
  return (int)count;
}

static inline int divan_is_passphrase_error(unsigned long code) {
  int library = ERR_GET_LIB(code), reason = ERR_GET_REASON(code);
  return (library == ERR_LIB_PEM &&
          (reason == PEM_R_BAD_PASSWORD_READ || reason == PEM_R_BAD_DECRYPT)) ||
         (library == ERR_LIB_PKCS12 && reason == PKCS12_R_PKCS12_CIPHERFINAL_ERROR) ||
         (library == ERR_LIB_PROV && reason == 100) /* PROV_R_BAD_DECRYPT */ ||
         (library == ERR_LIB_EVP && reason == EVP_R_BAD_DECRYPT);
}

static inline int divan_ssl_is_plain_text_error(unsigned long code) {
  int reason = ERR_GET_REASON(code);
  return ERR_GET_LIB(code) == ERR_LIB_SSL &&
         (reason == SSL_R_HTTP_REQUEST || reason == SSL_R_HTTPS_PROXY_REQUEST ||
          reason == SSL_R_WRONG_VERSION_NUMBER);
}
