#include "proto/certificates.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "engine/base/quote.h"

namespace baton::wire {
namespace {

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Store = std::unique_ptr<X509_STORE, Free<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, Free<X509_STORE_CTX_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>>;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

constexpr int kSerialBytes = 16;
constexpr long kBackdateSeconds = 3600;  // for clocks that are behind
constexpr long kDaySeconds = 24 * 3600;

absl::Status OpenSslError(std::string_view what) {
  char text[256] = "";
  ERR_error_string_n(ERR_get_error(), text, sizeof(text));
  return Internal("{}: {}", what, text);
}

absl::Status MakeFolder(const std::string& dir) {
  if (mkdir(dir.c_str(), 0755) == 0 || errno == EEXIST) return absl::OkStatus();
  return Unknown("{}: {}", dir, std::strerror(errno));
}

absl::StatusOr<File> CreateFile(const std::string& path, mode_t mode) {
  unlink(path.c_str());  // a running process goes on with the old file until it looks again
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) return Unknown("{}: {}", path, std::strerror(errno));
  return File(fdopen(fd, "wb"));
}

absl::StatusOr<File> OpenFile(const std::string& path) {
  File file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return NotFound("{}: {}", path, std::strerror(errno));
  return file;
}

absl::Status WriteKey(const std::string& path, EVP_PKEY* key) {
  ASSIGN_OR_RETURN(const File file, CreateFile(path, 0600));
  if (PEM_write_PrivateKey(file.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1 ||
      std::fflush(file.get()) != 0) {
    return OpenSslError(path);
  }
  return absl::OkStatus();
}

absl::Status WriteCertificate(const std::string& path, X509* certificate) {
  ASSIGN_OR_RETURN(const File file, CreateFile(path, 0644));
  if (PEM_write_X509(file.get(), certificate) != 1 || std::fflush(file.get()) != 0) {
    return OpenSslError(path);
  }
  return absl::OkStatus();
}

absl::Status AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  if (extension == nullptr || X509_add_ext(certificate, extension.get(), -1) != 1) {
    return OpenSslError(fmt::format("certificate extension {}", value));
  }
  return absl::OkStatus();
}

// Without subject, issuer and extensions.
absl::StatusOr<Certificate> MakeCertificate(const std::string& common_name, EVP_PKEY* key,
                                            int days) {
  Certificate certificate(X509_new());
  unsigned char serial[kSerialBytes];
  if (RAND_bytes(serial, sizeof(serial)) != 1) return OpenSslError("random serial number");
  serial[0] &= 0x7f;  // positive
  BIGNUM* number = BN_bin2bn(serial, sizeof(serial), nullptr);
  BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate.get()));
  BN_free(number);
  X509_set_version(certificate.get(), X509_VERSION_3);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kBackdateSeconds);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), days * kDaySeconds);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  if (X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(common_name.data()),
                                 static_cast<int>(common_name.size()), -1, 0) != 1) {
    return OpenSslError(fmt::format("certificate name \"{}\"", engine::Named(common_name)));
  }
  return certificate;
}

bool IsIpAddress(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

// Names that end up in file names and in OpenSSL's comma-separated lists.
absl::Status CheckPlainName(std::string_view what, const std::string& name) {
  const bool plain = !name.empty() && name.size() <= 64 && name.front() != '.' &&
                     name.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789-_.:") == std::string::npos;
  if (plain) return absl::OkStatus();
  return InvalidArgument("{}: got \"{}\", expected letters, digits and -_.", what,
                         engine::Named(name));
}

absl::StatusOr<std::string> AlternativeNames(const CertificateRequest& request) {
  std::string names = "URI:" + RoleUri(request.role);
  for (const std::string& host : request.hosts) {
    RETURN_IF_ERROR(CheckPlainName("host", host));
    names += fmt::format(",{}:{}", IsIpAddress(host) ? "IP" : "DNS", host);
  }
  return names;
}

}  // namespace

absl::Status CreateAuthority(const std::string& dir, int days) {
  const std::string key_path = dir + "/ca-key.pem";
  if (access(key_path.c_str(), F_OK) == 0) return AlreadyExists("{}: is there already", key_path);
  RETURN_IF_ERROR(MakeFolder(dir));
  const Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpenSslError("making a key");
  ASSIGN_OR_RETURN(const Certificate certificate, MakeCertificate("baton CA", key.get(), days));
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate.get()));
  X509* ca = certificate.get();
  RETURN_IF_ERROR(AddExtension(ca, ca, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  RETURN_IF_ERROR(AddExtension(ca, ca, NID_key_usage, "critical,keyCertSign"));
  RETURN_IF_ERROR(AddExtension(ca, ca, NID_subject_key_identifier, "hash"));
  if (X509_sign(ca, key.get(), EVP_sha256()) == 0) return OpenSslError("signing");
  RETURN_IF_ERROR(WriteKey(key_path, key.get()));
  return WriteCertificate(dir + "/ca.pem", ca);
}

absl::StatusOr<Security> IssueCertificate(const std::string& dir,
                                          const CertificateRequest& request) {
  RETURN_IF_ERROR(CheckPlainName("certificate name", request.name));
  ASSIGN_OR_RETURN(const std::string names, AlternativeNames(request));
  const std::string folder = dir + "/" + request.name;
  const Security files{.ca_file = folder + "/ca.pem",
                       .cert_file = folder + "/cert.pem",
                       .key_file = folder + "/key.pem"};

  ASSIGN_OR_RETURN(const File ca_file, OpenFile(dir + "/ca.pem"));
  ASSIGN_OR_RETURN(const File ca_key_file, OpenFile(dir + "/ca-key.pem"));
  const Certificate ca(PEM_read_X509(ca_file.get(), nullptr, nullptr, nullptr));
  const Key ca_key(PEM_read_PrivateKey(ca_key_file.get(), nullptr, nullptr, nullptr));
  if (ca == nullptr || ca_key == nullptr) return DataLoss("{}: no certificate authority", dir);

  const Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpenSslError("making a key");
  ASSIGN_OR_RETURN(const Certificate certificate,
                   MakeCertificate(request.name, key.get(), request.days));
  X509* subject = certificate.get();
  X509_set_issuer_name(subject, X509_get_subject_name(ca.get()));
  RETURN_IF_ERROR(AddExtension(subject, ca.get(), NID_basic_constraints, "critical,CA:FALSE"));
  RETURN_IF_ERROR(AddExtension(subject, ca.get(), NID_key_usage, "critical,digitalSignature"));
  RETURN_IF_ERROR(AddExtension(subject, ca.get(), NID_ext_key_usage, "serverAuth,clientAuth"));
  RETURN_IF_ERROR(AddExtension(subject, ca.get(), NID_subject_alt_name, names));
  if (X509_sign(subject, ca_key.get(), EVP_sha256()) == 0) return OpenSslError("signing");
  RETURN_IF_ERROR(MakeFolder(folder));
  RETURN_IF_ERROR(WriteCertificate(files.ca_file, ca.get()));
  RETURN_IF_ERROR(WriteKey(files.key_file, key.get()));
  RETURN_IF_ERROR(WriteCertificate(files.cert_file, subject));
  return files;
}

absl::Status CheckCertificate(const Security& files, absl::Time when) {
  ASSIGN_OR_RETURN(const File cert_file, OpenFile(files.cert_file));
  ASSIGN_OR_RETURN(const File key_file, OpenFile(files.key_file));
  const Certificate certificate(PEM_read_X509(cert_file.get(), nullptr, nullptr, nullptr));
  if (certificate == nullptr) return DataLoss("{}: no certificate in PEM", files.cert_file);
  const Key key(PEM_read_PrivateKey(key_file.get(), nullptr, nullptr, nullptr));
  if (key == nullptr) return DataLoss("{}: no private key in PEM", files.key_file);
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return FailedPrecondition("{}: not the key of {}", files.key_file, files.cert_file);
  }
  const Store authority(X509_STORE_new());
  if (X509_STORE_load_file(authority.get(), files.ca_file.c_str()) != 1)
    return DataLoss("{}: no certificate in PEM", files.ca_file);
  const StoreContext context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), authority.get(), certificate.get(), nullptr);
  X509_STORE_CTX_set_time(context.get(), 0, absl::ToTimeT(when));
  if (X509_verify_cert(context.get()) == 1) return absl::OkStatus();
  return FailedPrecondition("{}: {}", files.cert_file,
                            X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get())));
}

}  // namespace baton::wire
