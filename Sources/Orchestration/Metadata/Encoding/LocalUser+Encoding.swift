internal import Bytes
internal import Vocabulary

extension LocalUser {
    func append(to writer: ByteWriter) {
        writer.append(counted: id)
        writer.append(counted: name)
        roles.append(to: writer)
        writer.append(counted: credentials)
        writer.append(number: passwordChangedSeconds)
    }

    init?(_ reader: inout ByteReader) {
        guard let id = reader.text(), let name = reader.text(), let roles = Grants(&reader),
            let credentials = reader.counted(), let seconds = reader.leb128()
        else { return nil }
        self.init(
            id: id,
            name: name,
            roles: roles,
            credentials: credentials,
            passwordChangedSeconds: seconds
        )
    }
}

extension UserChange {
    /// The parts that follow the roles.
    private struct Parts: OptionSet {
        let rawValue: UInt8
        static let password = Parts(rawValue: 1)
        static let basis = Parts(rawValue: 2)
        /// Nothing follows for it: the user must not exist.
        static let absent = Parts(rawValue: 4)
        static let all: Parts = [.password, .basis, .absent]
    }

    private var parts: Parts {
        var parts: Parts = password == nil ? [] : .password
        switch was {
        case .any: break
        case .absent: parts.insert(.absent)
        case .version: parts.insert(.basis)
        }
        return parts
    }

    func append(to writer: ByteWriter) {
        writer.append(counted: id)
        writer.append(counted: name)
        roles.append(to: writer)
        writer.append(parts.rawValue)
        password?.append(to: writer)
        guard case .version(let basis) = was else { return }
        writer.append(counted: basis.name)
        basis.roles.append(to: writer)
    }

    init?(_ reader: inout ByteReader) {
        guard let id = reader.text(), let name = reader.text(), let roles = Grants(&reader),
            let parts = reader.byte().map(Parts.init(rawValue:)), Parts.all.isSuperset(of: parts),
            !parts.isSuperset(of: [.basis, .absent])
        else { return nil }
        self.init(id: id, name: name, roles: roles, password: nil)
        if parts.contains(.password) {
            guard let password = Password(&reader) else { return nil }
            self.password = password
        }
        if parts.contains(.absent) { was = .absent }
        guard parts.contains(.basis) else { return }
        guard let name = reader.text(), let roles = Grants(&reader) else { return nil }
        was = .version(Basis(name: name, roles: roles))
    }
}

extension UserChange.Password {
    fileprivate func append(to writer: ByteWriter) {
        writer.append(counted: credentials)
        writer.append(number: changedSeconds)
    }

    fileprivate init?(_ reader: inout ByteReader) {
        guard let credentials = reader.counted(), let seconds = reader.leb128() else { return nil }
        self.init(credentials: credentials, changedSeconds: seconds)
    }
}

extension PasswordChange {
    func append(to writer: ByteWriter) {
        writer.append(counted: id)
        password.append(to: writer)
        writer.append(counted: was)
    }

    init?(_ reader: inout ByteReader) {
        guard let id = reader.text(), let password = UserChange.Password(&reader),
            let was = reader.counted()
        else { return nil }
        self.init(id: id, password: password, was: was)
    }
}

/// Each grant as the role's name and the bucket's, which is empty for every bucket.
extension Grants {
    fileprivate func append(to writer: ByteWriter) {
        writer.append(list: roles) { grant, writer in
            writer.append(counted: grant.role.rawValue)
            writer.append(counted: grant.bucket ?? "")
        }
    }

    /// Only grants in the order of `roles` and without duplicates are valid: every state has one
    /// encoding.
    fileprivate init?(_ reader: inout ByteReader) {
        let grants = reader.list { reader -> RoleGrant? in
            guard let role = reader.text().flatMap(Role.init(rawValue:)),
                let bucket = reader.text(), bucket.isEmpty || role.isScoped
            else { return nil }
            return RoleGrant(role, bucket: bucket.isEmpty ? nil : bucket)
        }
        guard let grants else { return nil }
        self.init(grants)
        guard roles == grants else { return nil }
    }
}
