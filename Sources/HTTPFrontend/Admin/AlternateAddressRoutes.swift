internal import ClusterService
internal import Orchestration

/// The address by which clients from another network reach this node.
extension AdminRoutes {
    private static let path = "/node/controller/setupAlternateAddresses/external"

    static let alternateAddresses: [Route] = [
        Route(.put, path, access: .poolsWrite) { call throws(AdministrationError) in
            switch AlternateAddress.read(call.request.form) {
            case .success(let address): try await call.service.addresses.setAlternate(address)
            case .failure(let errors): return .refused(errors.list)
            }
            return .done
        }.failing(as: busyList),
        Route(.delete, path, access: .poolsWrite) { call throws(AdministrationError) in
            try await call.service.addresses.setAlternate(nil)
            return .done
        }.accepting().failing(as: busyList),
    ]
}

extension AlternateAddress {
    struct FormErrors: Error {
        let list: [FieldError]
    }

    /// Reads `hostname=public.example&kv=31210&mgmt=38091`.
    static func read(_ form: FormParameters) -> Result<AlternateAddress, FormErrors> {
        var errors: [FieldError] = []
        let host = form["hostname"] ?? ""
        let isName = host.utf8.allSatisfy { byte in
            byte > 0x20 && byte < 0x7f && !"/\\\"'<>@[]".utf8.contains(byte)
        }
        if host.isEmpty {
            errors.append(FieldError("hostname", "The value must be supplied"))
        } else if !isName || host.utf8.count > 255 {
            errors.append(FieldError("hostname", "\"\(host)\" is not a host name or IP address"))
        }
        var ports: [Port] = []
        for (name, value) in form.pairs where name != "hostname" {
            guard services.contains(name) else {
                let known = services.joined(separator: ", ")
                errors.append(FieldError(name, "Unknown port. Known ports: \(known)"))
                continue
            }
            guard let number = UInt16(value), number > 0 else {
                errors.append(FieldError(name, "The value must be in range from 1 to 65535"))
                continue
            }
            ports.removeAll { $0.service == name }
            ports.append(Port(service: name, number: number))
        }
        guard errors.isEmpty else { return .failure(FormErrors(list: errors)) }
        let sorted = services.compactMap { name in ports.first { $0.service == name } }
        return .success(AlternateAddress(host: host, ports: sorted))
    }
}
