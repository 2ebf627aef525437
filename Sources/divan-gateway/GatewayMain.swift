import Bytes
import LinuxPlatform
import Seams
import SyncFrontend
import SyncWire
import Vocabulary

/// The program `divan-gateway`.
///
/// The order of its start is its protection: the spawner is forked before there are threads or secrets, files are
/// read and opened before the confinement, and listeners are bound within it.
@main
struct GatewayMain {
    static func main() {
        do {
            let arguments = try GatewayArguments(CommandLine.arguments.dropFirst())
            switch arguments.action {
            case .printHelp: ProcessEnd.print(GatewayArguments.help)
            case .printVersion: ProcessEnd.print("\(Release.version)\n")
            case .serve: try GatewayProgram(arguments).run()
            }
        } catch {
            ProcessEnd.report("divan-gateway: \(error)")
            ProcessEnd.exit(1)
        }
        ProcessEnd.exit(0)
    }
}
