package import JSON
package import SyncWire

extension Principal {
    /// Writes what the administration port shows: never the password.
    ///
    /// Members have the order of Sync Gateway's answers in the dialect.
    package func write(to writer: inout JSONWriter, access: Access, dialect: GatewayDialect) {
        writer.object { writer in
            writer.member("name", key.externalName)
            Self.write("admin_channels", channels.names.map(\.description), to: &writer)
            let all = access.allChannels.names.map(\.description)
            if dialect == .first { Self.write("all_channels", all, to: &writer) }
            if key.kind == .user {
                if !email.isEmpty || dialect == .third { writer.member("email", email) }
                if isDisabled || dialect == .third { writer.member("disabled", isDisabled) }
                Self.write("admin_roles", roles.names, to: &writer)
            }
            if dialect == .third { Self.write("all_channels", all, to: &writer) }
            Self.write("roles", access.roles.names, to: &writer)
        }
    }

    /// Writes the answer of `_session`: the name is null for the guest and without a user.
    package static func writeSession(
        of user: Principal?,
        access: Access?,
        oneTimeID: String? = nil,
        to writer: inout JSONWriter
    ) {
        writer.object { writer in
            writer.array("authentication_handlers") { writer in
                writer.value("default")
                writer.value("cookie")
            }
            writer.member("ok", true)
            if let oneTimeID { writer.member("one_time_session_id", oneTimeID) }
            writer.object("userCtx") { writer in
                writer.object("channels") { writer in
                    for grant in access?.channels.grants ?? [] {
                        writer.member(grant.name.description, grant.sequence)
                    }
                }
                writer.name("name")
                if let user, user.key != .guest {
                    writer.value(user.key.name)
                } else {
                    writer.null()
                }
            }
        }
    }

    private static func write(_ name: String, _ texts: [String], to writer: inout JSONWriter) {
        guard !texts.isEmpty else { return }
        writer.array(name) { writer in
            for text in texts { writer.value(text) }
        }
    }
}
