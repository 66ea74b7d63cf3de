package robot

import "strings"

// definitions holds the text of each message type followed by those it refers to, as a recorder
// stores it.
var definitions = map[string]string{
	"tf2_msgs/msg/TFMessage": define("geometry_msgs/TransformStamped[] transforms",
		"geometry_msgs/TransformStamped", "std_msgs/Header", "builtin_interfaces/Time",
		"geometry_msgs/Transform", "geometry_msgs/Vector3", "geometry_msgs/Quaternion"),
	"nav_msgs/msg/Odometry": define(`std_msgs/Header header
string child_frame_id
geometry_msgs/PoseWithCovariance pose
geometry_msgs/TwistWithCovariance twist`,
		"std_msgs/Header", "builtin_interfaces/Time", "geometry_msgs/PoseWithCovariance", "geometry_msgs/Pose",
		"geometry_msgs/Point", "geometry_msgs/Quaternion", "geometry_msgs/TwistWithCovariance",
		"geometry_msgs/Twist", "geometry_msgs/Vector3"),
	"sensor_msgs/msg/JointState": define(`std_msgs/Header header
string[] name
float64[] position
float64[] velocity
float64[] effort`, "std_msgs/Header", "builtin_interfaces/Time"),
	"sensor_msgs/msg/Imu": define(`std_msgs/Header header
geometry_msgs/Quaternion orientation
float64[9] orientation_covariance
geometry_msgs/Vector3 angular_velocity
float64[9] angular_velocity_covariance
geometry_msgs/Vector3 linear_acceleration
float64[9] linear_acceleration_covariance`,
		"std_msgs/Header", "builtin_interfaces/Time", "geometry_msgs/Quaternion", "geometry_msgs/Vector3"),
	"sensor_msgs/msg/PointCloud2": define(`std_msgs/Header header
uint32 height
uint32 width
sensor_msgs/PointField[] fields
bool is_bigendian
uint32 point_step
uint32 row_step
uint8[] data
bool is_dense`, "std_msgs/Header", "builtin_interfaces/Time", "sensor_msgs/PointField"),
	"sensor_msgs/msg/CompressedImage": define(`std_msgs/Header header
string format
uint8[] data`, "std_msgs/Header", "builtin_interfaces/Time"),
}

// parts are the types that messages are built from.
var parts = map[string]string{
	"builtin_interfaces/Time": "int32 sec\nuint32 nanosec",
	"std_msgs/Header":         "builtin_interfaces/Time stamp\nstring frame_id",
	"geometry_msgs/Vector3":   "float64 x\nfloat64 y\nfloat64 z",
	"geometry_msgs/Point":     "float64 x\nfloat64 y\nfloat64 z",
	"geometry_msgs/Quaternion": `float64 x 0
float64 y 0
float64 z 0
float64 w 1`,
	"geometry_msgs/Transform": "geometry_msgs/Vector3 translation\ngeometry_msgs/Quaternion rotation",
	"geometry_msgs/TransformStamped": `std_msgs/Header header
string child_frame_id
geometry_msgs/Transform transform`,
	"geometry_msgs/Pose":                "geometry_msgs/Point position\ngeometry_msgs/Quaternion orientation",
	"geometry_msgs/PoseWithCovariance":  "geometry_msgs/Pose pose\nfloat64[36] covariance",
	"geometry_msgs/Twist":               "geometry_msgs/Vector3 linear\ngeometry_msgs/Vector3 angular",
	"geometry_msgs/TwistWithCovariance": "geometry_msgs/Twist twist\nfloat64[36] covariance",
	"sensor_msgs/PointField":            "string name\nuint32 offset\nuint8 datatype\nuint32 count",
}

func define(text string, needs ...string) string {
	var b strings.Builder
	b.WriteString(text + "\n")
	for _, name := range needs {
		b.WriteString(strings.Repeat("=", 80) + "\nMSG: " + name + "\n" + parts[name] + "\n")
	}
	return b.String()
}
