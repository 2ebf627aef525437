internal import COpenSSL
internal import Vocabulary

/// The names of a certificate by their places.
final class CertificateNames {
    private(set) var found: [ClientCertificate.Path: [String]] = [:]

    init(of certificate: OpaquePointer) {
        let this = Unmanaged.passUnretained(self).toOpaque()
        divan_x509_each_name(certificate, this) { context, kind, start, count in
            guard let context else { return }
            let names = Unmanaged<CertificateNames>.fromOpaque(context).takeUnretainedValue()
            let paths: [ClientCertificate.Path] = [.commonName, .dnsName, .uri, .email]
            let bytes = UnsafeRawBufferPointer(start: start, count: Int(count))
            // A name with a zero byte could be read as another one.
            guard !bytes.contains(0) else { return }
            names.found[paths[Int(kind)], default: []].append(
                String(decoding: bytes, as: UTF8.self)
            )
        }
    }
}
